package sim

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
)

// setPassphrase stores a new master passphrase, as a hash among the controller's properties.
func (d *Database) setPassphrase(passphrase string) {
	d.passphrase = passphrase
	sum := sha256.Sum256([]byte(d.url + passphrase))
	d.props["encrypted/masterhash"] = fmt.Sprintf("%x", sum[:16])
	d.props["encrypted/masterkey"] = fmt.Sprintf("%x", sum[16:])
	d.props["encrypted/passphrasesalt"] = fmt.Sprintf("%x", sum[:8])
}

// getPassphrase exists from LINSTOR 1.31 on. The passphrase itself is in memory only: a restart locks it.
func getPassphrase(c *call) reply {
	if !c.ctl.version.atLeast(1, 31) {
		return notFound(c)
	}
	status := "locked"
	switch {
	case c.db.passphrase == "":
		status = "unset"
	case c.ctl.unlocked:
		status = "unlocked"
	}
	r := c.object(http.StatusOK, map[string]string{"status": status})
	r.contentType = "text/plain" // as LINSTOR marks it, though it is JSON
	return r
}

// redeployed are the entries about all volumes, which LINSTOR has looked at anew when there is a passphrase to open
// them with.
func (c *call) redeployed() rcs {
	var list rcs
	for _, d := range c.db.sortedDfns() {
		for _, n := range c.db.holdersOf(d, nil) {
			if d.storageOnly && c.ctl.isOnline(n) {
				list = append(list, c.db.volumeEntry(placed{d, d.resources[key(n.name)]}, codeModified, "resized"))
			}
		}
		list = append(list, success(codeModified, "Updated resource definition %s", d.name))
	}
	return list
}

type passphraseJSON struct {
	NewPassphrase string `json:"new_passphrase"`
	OldPassphrase string `json:"old_passphrase"`
}

func createPassphrase(c *call) reply {
	var body passphraseJSON
	if r, ok := c.decode(&body, parsedFirst); !ok {
		return r
	}
	x := rcContext{op: opCreate, object: objCtrl}
	if c.db.passphrase != "" {
		return c.list(http.StatusCreated, x, rcs{failure(codeExistsPassphrase, "Could not create new crypt passphrase as "+
			"it already exists").
			cause("A passphrase was already defined").correction("Use the crypt-modify-passphrase command instead of " +
			"crypt-create-passphrase")})
	}
	c.db.setPassphrase(body.NewPassphrase)
	c.ctl.unlocked = true
	if c.ctl.stuckDeletion() {
		return c.neverAnswer()
	}
	return c.list(http.StatusCreated, x, append(rcs{success(codeCreated, "Crypt passphrase created.")},
		c.redeployed()...))
}

func modifyPassphrase(c *call) reply {
	var body passphraseJSON
	if r, ok := c.decode(&body, parsedFirst); !ok {
		return r
	}
	x := rcContext{op: opModify, object: objCtrl}
	switch c.db.passphrase {
	case "":
		return c.list(http.StatusOK, x, rcs{failure(codeExistsPassphrase, "Could not modify crypt passphrase as it does "+
			"not exist").
			cause("No passphrase was defined yet").correction("Use the crypt-create-passphrase command instead of " +
			"crypt-modify-passphrase")})
	case body.OldPassphrase:
		c.db.setPassphrase(body.NewPassphrase) // a controller that is locked stays so until somebody enters it
		return c.list(http.StatusOK, x, rcs{success(codeModified, "Crypt passphrase updated")})
	default:
		return c.list(http.StatusOK, x, rcs{wrongPassphrase()})
	}
}

// enterPassphrase takes a bare JSON string.
func enterPassphrase(c *call) reply {
	var passphrase string
	if err := json.Unmarshal(c.body, &passphrase); err != nil {
		return c.list(http.StatusInternalServerError, rcContext{},
			rcs{failure(codeParseError, "Unable to parse input json.").details("%s", err)})
	}
	x := rcContext{op: opModify, object: objCtrl}
	switch c.db.passphrase {
	case "":
		return c.list(http.StatusOK, x, rcs{failure(codeMissingProps, "encrypted namespace is empty, you need to set a "+
			"passphrase first")})
	case passphrase:
		if c.ctl.unlocked {
			return c.list(http.StatusOK, x, rcs{success(codePassphraseAccepted, "Passphrase accepted")})
		}
		c.ctl.unlocked = true
		return c.list(http.StatusOK, x, append(rcs{success(codePassphraseAccepted, "Passphrase accepted")},
			c.redeployed()...))
	default:
		return c.list(http.StatusOK, x, rcs{wrongPassphrase()})
	}
}

func wrongPassphrase() rc {
	return failure(codeMissingProps,
		"Could not restore master passphrase as the given old passphrase was incorrect").cause("Wrong passphrase").
		correction("Enter the correct passphrase")
}
