package guest

import (
	"debug/elf"
	"fmt"
	"path/filepath"
	"strings"
)

// moduleName is what the kernel calls the module in a file: "dm_mod" for dm-mod.ko.
func moduleName(path string) string {
	return strings.ReplaceAll(strings.TrimSuffix(filepath.Base(path), ".ko"), "-", "_")
}

// modinfo is what a module says about itself.
func modinfo(path string) (map[string]string, error) {
	f, err := elf.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	section := f.Section(".modinfo")
	if section == nil {
		return nil, fmt.Errorf("%s is no kernel module: it has no section .modinfo", path)
	}
	data, err := section.Data()
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, entry := range strings.Split(string(data), "\x00") {
		if key, value, found := strings.Cut(entry, "="); found {
			out[key] = value
		}
	}
	return out, nil
}

// vermagic is the release of the kernel that a module was compiled for.
func vermagic(path string) (string, error) {
	info, err := modinfo(path)
	if err != nil {
		return "", err
	}
	release, _, _ := strings.Cut(info["vermagic"], " ")
	if release == "" {
		return "", fmt.Errorf("%s does not say for which kernel it was compiled", path)
	}
	return release, nil
}
