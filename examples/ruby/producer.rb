# Signs a user up: the row and the task in one transaction, so that both are there, or neither. With the gem of clients/ruby:
#
#     psql -c 'CREATE TABLE public.users (mail text PRIMARY KEY)'
#     ruby examples/ruby/producer.rb ann@example.org
require "pg"
require "tenon"

def sign_up(connection, mail)
  connection.transaction do
    connection.exec_params("INSERT INTO public.users (mail) VALUES ($1)", [mail])
    Tenon.enqueue(connection, "welcome_mail", { to: mail })
  end
end

abort "usage: producer.rb MAIL" unless ARGV.length == 1
connection = PG.connect(ENV.fetch("DATABASE_URL"))
puts "task #{sign_up(connection, ARGV[0])}"
