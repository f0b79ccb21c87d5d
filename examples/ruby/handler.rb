# A pool handler; tenon.rb beside it has the loop.
#
#     tenon worker --handler 'welcome_mail=pool:exec ruby examples/ruby/handler.rb'
require_relative "tenon"

def welcome_mail(payload)
  to = payload["to"] or raise Tenon::Dead, 'the payload has no "to"'
  warn "mail to #{to}" # send it here
  { sent: to }
end

Tenon.serve("welcome_mail" => method(:welcome_mail))
