package egress

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// TLSFiles are the files of a configuration, in PEM. Each may be empty.
type TLSFiles struct {
	// CA has the certificates of authorities that are trusted besides the system's.
	CA string
	// Cert and Key are our certificate, with its chain, and its private key.
	Cert, Key string
}

// Load reads the files into cfg. The error names the file that is wrong, and holds
// nothing of its content.
func (f TLSFiles) Load(cfg *Config) error {
	if (f.Cert == "") != (f.Key == "") {
		return errors.New("egress: a client certificate needs both a cert_file and a key_file")
	}
	if f.CA != "" {
		pem, err := os.ReadFile(f.CA)
		if err != nil {
			return fmt.Errorf("egress: ca_file: %w", err)
		}
		pool, err := x509.SystemCertPool()
		if err != nil { // a machine without any
			pool = x509.NewCertPool()
		}
		if !pool.AppendCertsFromPEM(pem) {
			return fmt.Errorf("egress: ca_file: %s has no certificate in PEM", f.CA)
		}
		cfg.RootCAs = pool
	}
	if f.Cert != "" {
		pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
		if err != nil {
			return fmt.Errorf("egress: cert_file %s, key_file %s: %w", f.Cert, f.Key, err)
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return nil
}
