// Package certificates makes, keeps and judges the certificates by which LINSTOR's parts know each other.
//
// LINSTOR checks no names, neither of REST clients nor between controller and satellites: whoever has a certificate of
// the authority that is trusted there is an administrator, or a controller (linstor-server 1.34, GrizzlyHttpService
// and JclCryptoProvider; run with 1.34.0-rc.1). So each kind of connection has an Authority of its own, which signs
// nothing else. An Authority and what follows it, a Succession, lies in one Secret, which nothing mounts. A Leaf, its
// key and the Bundle of authorities that its holder trusts lie in another one, which pods mount.
//
// Nothing here has effects, reads a clock that is not passed in, or writes a key anywhere but where the caller asks.
package certificates
