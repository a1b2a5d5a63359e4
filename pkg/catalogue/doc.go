// Package catalogue knows the LINSTOR releases that the operator can run: their container images, the databases that each
// can use, the releases it can be upgraded from, and which module loader fits which operating system.
//
// The catalogue is one YAML file that is compiled into the operator, so that an operator's version fixes what it installs.
// A ConfigMap can extend it with newer releases or with loaders for other operating systems; what it holds is checked as
// strictly as the embedded file, because image names and keys end up in objects that run privileged.
package catalogue
