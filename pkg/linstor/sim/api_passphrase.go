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
	return c.object(http.StatusOK, map[string]string{"status": status})
}

type passphraseJSON struct {
	NewPassphrase string `json:"new_passphrase"`
	OldPassphrase string `json:"old_passphrase"`
}

func createPassphrase(c *call) reply {
	var body passphraseJSON
	if r, ok := c.decode(&body, http.StatusInternalServerError); !ok {
		return r
	}
	x := rcContext{op: opCreate, object: objCtrl}
	if c.db.passphrase != "" {
		return c.list(http.StatusCreated, x, rcs{failure(codeExistsPassphrase, "Could not create new crypt passphrase as it already exists").
			cause("A passphrase was already defined")})
	}
	c.db.setPassphrase(body.NewPassphrase)
	c.ctl.unlocked = true
	return c.list(http.StatusCreated, x, rcs{success(codeCreated, "Crypt passphrase created.")})
}

func modifyPassphrase(c *call) reply {
	var body passphraseJSON
	if r, ok := c.decode(&body, http.StatusInternalServerError); !ok {
		return r
	}
	x := rcContext{op: opModify, object: objCtrl}
	switch c.db.passphrase {
	case "":
		return c.list(http.StatusOK, x, rcs{failure(codeExistsPassphrase, "Could not modify crypt passphrase as it does not exist")})
	case body.OldPassphrase:
		c.db.setPassphrase(body.NewPassphrase)
		c.ctl.unlocked = true
		return c.list(http.StatusOK, x, rcs{success(codeModified, "Crypt passphrase updated")})
	default:
		return c.list(http.StatusOK, x, rcs{wrongPassphrase()})
	}
}

// enterPassphrase takes a bare JSON string.
func enterPassphrase(c *call) reply {
	var passphrase string
	if err := json.Unmarshal(c.body, &passphrase); err != nil {
		return c.list(http.StatusInternalServerError, rcContext{}, rcs{failure(codeParseError, "Unable to parse input json.").details("%s", err)})
	}
	x := rcContext{op: opModify, object: objCtrl}
	switch c.db.passphrase {
	case "":
		return c.list(http.StatusOK, x, rcs{failure(codeMissingProps, "encrypted namespace is empty, you need to set a passphrase first")})
	case passphrase:
		c.ctl.unlocked = true
		return c.list(http.StatusOK, x, rcs{success(codePassphraseAccepted, "Passphrase accepted")})
	default:
		return c.list(http.StatusOK, x, rcs{wrongPassphrase()})
	}
}

func wrongPassphrase() rc {
	return failure(codeMissingProps, "Could not restore master passphrase as the given old passphrase was incorrect").cause("Wrong passphrase")
}
