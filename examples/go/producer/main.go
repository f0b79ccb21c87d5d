// Signs a user up: the row and the task in one transaction, so that both are there, or neither.
//
//	psql -c 'CREATE TABLE public.users (mail text PRIMARY KEY)'
//	cd examples/go && go run ./producer ann@example.org
//
// lib/pq uses TLS unless sslmode says otherwise: for the servers of script/services set PGSSLMODE=disable.
package main

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"log"
	"os"

	_ "github.com/lib/pq" // or any other driver of database/sql
)

func signUp(db *sql.DB, mail string) (int64, error) {
	payload, err := json.Marshal(map[string]string{"to": mail})
	if err != nil {
		return 0, err
	}
	tx, err := db.Begin()
	if err != nil {
		return 0, err
	}
	defer tx.Rollback() // after the commit it does nothing
	if _, err := tx.Exec(`INSERT INTO public.users (mail) VALUES ($1)`, mail); err != nil {
		return 0, err
	}
	var id int64
	enqueue := `SELECT tenon.enqueue('welcome_mail', $1::jsonb)`
	if err := tx.QueryRow(enqueue, string(payload)).Scan(&id); err != nil {
		return 0, err
	}
	return id, tx.Commit()
}

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: producer MAIL")
	}
	db, err := sql.Open("postgres", os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	id, err := signUp(db, os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("task", id)
}
