package api

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
)

// bubble calls the server without a network, whose waiting a bubble of synctest
// could not see.
type bubble struct{ *rig }

func newBubble(t *testing.T) *bubble { return &bubble{newQuietRig(t)} }

func (b *bubble) call(as, path string, body any) answer {
	b.t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		b.t.Fatal(err)
	}
	req := httptest.NewRequest(http.MethodPost, path, bytes.NewReader(raw)).WithContext(b.t.Context())
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+b.secrets[as])
	w := httptest.NewRecorder()
	b.server.ServeHTTP(w, req)
	a := answer{status: w.Code, header: w.Header(), raw: w.Body.Bytes()}
	if w.Code < 400 {
		_ = json.Unmarshal(a.raw, &a.body)
	} else {
		_ = json.Unmarshal(a.raw, &a.problem)
	}
	return a
}

func jsonEqual(a, b string) bool {
	var x, y any
	if json.Unmarshal([]byte(a), &x) != nil || json.Unmarshal([]byte(b), &y) != nil {
		return false
	}
	p, _ := json.Marshal(x)
	q, _ := json.Marshal(y)
	return bytes.Equal(p, q)
}

// resultOf returns the bytes of the result of a replay.
func resultOf(t *testing.T, a answer) []byte {
	t.Helper()
	var in struct {
		Claim struct {
			Result    json.RawMessage `json:"result"`
			ResultB64 []byte          `json:"result_b64"`
		} `json:"claim"`
	}
	if err := json.Unmarshal(a.raw, &in); err != nil {
		t.Fatal(err)
	}
	if in.Claim.Result != nil {
		return in.Claim.Result
	}
	return in.Claim.ResultB64
}
