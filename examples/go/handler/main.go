// A pool handler, up to 20 tasks at once. serve.go beside it has the loop.
//
//	go build -o mailer ./handler && tenon worker --handler 'welcome_mail=pool:exec ./mailer'
package main

import (
	"encoding/json"
	"fmt"
	"log"
)

func welcomeMail(t task) (any, error) {
	var mail struct {
		To string `json:"to"`
	}
	if err := json.Unmarshal(t.Payload, &mail); err != nil || mail.To == "" {
		return nil, fmt.Errorf("%w: the payload has no \"to\"", errDead)
	}
	log.Print("mail to ", mail.To) // send it here; stdout is for answers
	return map[string]string{"sent": mail.To}, nil
}

func main() {
	serve(20, map[string]handler{"welcome_mail": welcomeMail})
}
