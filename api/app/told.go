package app

import (
	"encoding/json"
	"strconv"

	"onced/kv"
	"onced/kv/feed"
	"onced/saga/definition"
)

// definitionPut is the type of the notification of a definition that was put.
const definitionPut = "operator.definition.put"

// putNotice is its data. It has no field for the document: that may name what is secret.
type putNotice struct {
	Definition string `json:"definition"`
	Version    string `json:"version"`
	Previous   string `json:"previous,omitempty"`
	New        bool   `json:"new"`
	Origin     string `json:"origin"`
	Digest     string `json:"digest"`
	Actor      string `json:"actor,omitempty"`
	File       string `json:"file,omitempty"`
}

// told puts into the feed which version new runs of a definition use from now on, and
// who or which file has brought it, in the transaction that does so.
func told(log *feed.Feed) func(kv.Writer, definition.Change) error {
	return func(w kv.Writer, c definition.Change) error {
		s := &c.Stored
		data, err := json.Marshal(putNotice{Definition: s.Name, Version: s.Version, Previous: c.Previous,
			New: c.Created, Origin: string(s.Origin), Digest: s.Digest, Actor: c.Actor, File: c.File})
		if err != nil {
			return err
		}
		at := strconv.FormatInt(w.Now().UnixNano(), 10) // a version can be put again after another
		_, err = log.Append(w, feed.Event{ID: feed.DerivedID("definition", s.Name, s.Version, at),
			Type: definitionPut, Subject: s.Name, Data: data})
		return err
	}
}
