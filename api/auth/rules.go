package auth

import (
	"bytes"

	"onced/kv"
	"onced/kv/invariant"
)

// Rules returns what is true of the tokens of a store at every commit.
func Rules() []invariant.Rule {
	return []invariant.Rule{
		{Name: "auth.token", Why: "a token could work and be neither listed nor revoked",
			Check: invariant.Rows(tokenTable, checkToken)},
		{Name: "auth.id", Why: "a listed token could not be read", Check: invariant.Rows(idTable, checkID)},
		{Name: "auth.name", Why: "two live tokens could have one name, and audits not tell them apart",
			Check: invariant.Rows(nameTable, checkNameRow)},
	}
}

func checkToken(rd kv.Reader, e kv.Row[row]) ([]string, error) {
	r := e.Value
	var found []string
	if !bytes.Equal(e.Key, sumKey(r.Sum)) {
		found = append(found, "it stands under another sum than its own")
	}
	if !r.Role.Valid() || r.Name == "" || r.Principal == "" || r.Version == 0 || r.CreatedAt == 0 {
		found = append(found, "it lacks its role, name, principal, version or instant")
	}
	at, ok, err := idTable.Get(rd, idKey(r.ID))
	if err != nil {
		return nil, err
	}
	if !ok || !bytes.Equal(at.Sum, r.Sum) {
		found = append(found, "its id does not lead to it")
	}
	return found, nil
}

func checkID(rd kv.Reader, e kv.Row[idRow]) ([]string, error) {
	r, ok, err := tokenTable.Get(rd, sumKey(e.Value.Sum))
	if err != nil {
		return nil, err
	}
	if !ok || !bytes.Equal(e.Key, idKey(r.ID)) {
		return []string{"it leads to no token of this id"}, nil
	}
	return nil, nil
}

func checkNameRow(rd kv.Reader, e kv.Row[nameRow]) ([]string, error) {
	r, ok, err := byID(rd, e.Value.ID)
	if err != nil {
		return nil, err
	}
	if !ok || !bytes.Equal(e.Key, nameKey(r.Name)) {
		return []string{"it leads to no token of this name"}, nil
	}
	return nil, nil
}
