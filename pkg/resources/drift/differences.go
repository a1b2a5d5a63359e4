package drift

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Differences names the fields of a live object that are not as its builder wants them, sorted, without their values.
func Differences(live, want client.Object) []string {
	a, errA := runtime.DefaultUnstructuredConverter.ToUnstructured(want)
	b, errB := runtime.DefaultUnstructuredConverter.ToUnstructured(live)
	if errA != nil || errB != nil {
		return nil
	}
	var paths []string
	for key, value := range a {
		switch key {
		case "apiVersion", "kind", "status":
		case "metadata":
			for _, part := range []string{"labels", "annotations"} {
				paths = append(paths, differing(key+"."+part, field(value, part), field(b[key], part))...)
			}
		default:
			paths = append(paths, differing(key, value, b[key])...)
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

func field(of any, name string) any {
	m, _ := of.(map[string]any)
	return m[name]
}
