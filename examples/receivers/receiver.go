// Receives postbacks at /postback and pingbacks at /pingback?id=$id.
//
// A genuine, new webhook becomes a file in the inbox before it is answered; the work is done later,
// from the inbox. Go 1.19 or newer, nothing else: go run receiver.go
package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// More than a task's input and result can have together with the daemon's defaults.
const bodyBytesMax = 8 << 20

var (
	// One secret, or several while one is being replaced.
	secrets = strings.FieldsFunc(os.Getenv("WEBHOOK_SECRETS"), func(r rune) bool {
		return strings.ContainsRune(" ,\t\r\n", r)
	})
	inbox = envOr("INBOX", "inbox")
	// The beginning of the task's webhook URLs, as the sender sees them. Never taken from Host or
	// X-Forwarded-*: the sender of the request writes these.
	publicURL string

	taskID = regexp.MustCompile(`^[0-9a-f-]{36}$`)
)

func main() {
	if len(secrets) == 0 {
		log.Fatal("Set WEBHOOK_SECRETS to the webhook secret, whsec_…")
	}
	check(os.MkdirAll(inbox, 0o700))
	listener, err := net.Listen("tcp", "127.0.0.1:"+envOr("PORT", "8080"))
	check(err)
	ownURL := "http://" + listener.Addr().String()
	publicURL = strings.TrimSuffix(envOr("PUBLIC_URL", ownURL), "/")
	fmt.Println(ownURL)
	// Not http.ServeMux, which redirects paths that it would spell differently.
	server := http.Server{Handler: http.HandlerFunc(serve), ReadTimeout: 30 * time.Second}
	check(server.Serve(listener))
}

func serve(w http.ResponseWriter, r *http.Request) {
	// Exactly as on the request line: r.URL is parsed and may be spelled differently.
	path, _, _ := strings.Cut(r.RequestURI, "?")
	switch {
	case r.Method == "POST" && path == "/postback":
		w.WriteHeader(receivePostback(w, r))
	case r.Method == "GET" && path == "/pingback":
		w.WriteHeader(receivePingback(r))
	default:
		w.WriteHeader(404)
	}
}

func receivePostback(w http.ResponseWriter, r *http.Request) int {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, bodyBytesMax))
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return 413
	}
	if err != nil {
		return 400
	}
	if !isSigned(body, r.Header) {
		return 401
	}
	// Parse it only now.
	var envelope struct{ Tasks []struct{ ID string } }
	if json.Unmarshal(body, &envelope) != nil || len(envelope.Tasks) != 1 {
		return 400
	}
	return accept("postback", envelope.Tasks[0].ID, body)
}

func receivePingback(r *http.Request) int {
	url := []byte(publicURL + r.RequestURI)
	if !isSigned(url, r.Header) {
		return 401
	}
	return accept("pingback", r.URL.Query().Get("id"), url)
}

// isSigned says whether one of the secrets signed these bytes.
func isSigned(message []byte, header http.Header) bool {
	// While a secret is being replaced, X-Signature-Next is made with the new one.
	for _, name := range []string{"X-Signature", "X-Signature-Next"} {
		for _, secret := range secrets {
			mac := hmac.New(sha256.New, []byte(secret))
			mac.Write(message)
			expected := "sha256=" + hex.EncodeToString(mac.Sum(nil))
			if hmac.Equal([]byte(expected), []byte(header.Get(name))) {
				return true
			}
		}
	}
	return false
}

func accept(kind, id string, content []byte) int {
	if !taskID.MatchString(id) {
		return 400
	}
	isNew, err := store(id+"."+kind, content)
	if err != nil {
		// It is not stored, so answer no 2xx: it will come again.
		log.Print(err)
		return 500
	}
	if isNew {
		fmt.Println("new", kind, id)
	} else {
		fmt.Println("again", kind, id)
	}
	return 200
}

// store puts a file on disk, whole or not at all. It is not new when it is there already: the
// webhook came before. Keep the names for as long as a webhook may come again, also when the work
// is done.
func store(name string, content []byte) (isNew bool, err error) {
	draft, err := os.CreateTemp(inbox, ".draft-")
	if err != nil {
		return false, err
	}
	defer os.Remove(draft.Name())
	defer draft.Close()
	if _, err = draft.Write(content); err != nil {
		return false, err
	}
	if err = draft.Sync(); err != nil {
		return false, err
	}
	// Of two at the same time one makes the name, and the other fails.
	err = os.Link(draft.Name(), filepath.Join(inbox, name))
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	// The name must be on disk too.
	return true, draft.Sync()
}

func envOr(name, value string) string {
	if text := os.Getenv(name); text != "" {
		return text
	}
	return value
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
