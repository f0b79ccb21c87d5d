# Signs a user up: the row and the task in one transaction, so that both are there, or neither.
#
#     psql -c 'CREATE TABLE public.users (mail text PRIMARY KEY)'
#     ruby examples/ruby/producer.rb ann@example.org          # needs the gem pg
#
# In Rails it is the same in ActiveRecord::Base.transaction, on ActiveRecord::Base.connection.raw_connection.
require "json"
require "pg"

def sign_up(connection, mail)
  connection.transaction do
    connection.exec_params("INSERT INTO public.users (mail) VALUES ($1)", [mail])
    payload = JSON.generate(to: mail)
    connection.exec_params("SELECT tenon.enqueue('welcome_mail', $1::jsonb)", [payload]).getvalue(0, 0).to_i
  end
end

abort "usage: producer.rb MAIL" unless ARGV.length == 1
connection = PG.connect(ENV.fetch("DATABASE_URL"))
puts "task #{sign_up(connection, ARGV[0])}"
