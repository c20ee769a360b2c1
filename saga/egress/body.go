package egress

import (
	"errors"
	"io"
	"net/http"

	"onced/saga/egress/sendonce"
)

// firstRead bounds what is set aside for a body before any of it is there, in bytes.
const firstRead = 16 << 10

// ReadBody reads the body of an answer, at most limit bytes of it, and closes it.
// whole says that there was no more. A body that is read whole leaves its
// connection for the next request; of a larger one the rest is not read, and the
// connection is closed. The error is *[Error] with Sent true: the body broke off, or
// its time was over.
func ReadBody(resp *http.Response, limit int) (body []byte, whole bool, err error) {
	body, whole, err = read(resp, limit)
	_ = resp.Body.Close() // what was read stands
	return body, whole, err
}

func read(resp *http.Response, limit int) (body []byte, whole bool, err error) {
	size := int64(512)
	if resp.ContentLength >= 0 { // what is announced may never come
		size = min(resp.ContentLength, firstRead)
	}
	// One more than the limit is read, to see whether there is more.
	body = make([]byte, 0, min(size, int64(limit))+1)
	for {
		if len(body) > limit {
			return body[:limit], false, nil
		}
		if len(body) == cap(body) {
			body = append(body, 0)[:len(body)]
		}
		n, err := resp.Body.Read(body[len(body):min(cap(body), limit+1)])
		body = body[:len(body)+n]
		switch {
		case err == nil:
		case errors.Is(err, io.EOF) && len(body) <= limit:
			return body, true, nil
		case errors.Is(err, io.EOF) || len(body) > limit:
			return body[:limit], false, nil
		default:
			e := newError(resp.Request, sendonce.Answered, err)
			if e.Kind == NotHTTP || e.Kind == OurCertificate {
				e.Kind = Broken // it was accepted, for the answer began
			}
			return nil, false, e
		}
	}
}
