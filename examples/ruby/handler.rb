# A handler, with the gem of clients/ruby:
#
#     tenon_worker -r examples/ruby/handler.rb
require "tenon"

Tenon.handle("welcome_mail") do |task|
  to = task.payload["to"] or raise Tenon::Dead, 'the payload has no "to"'
  warn "mail to #{to}" # send it here
  { sent: to }
end
