class Sent < ApplicationRecord
  self.table_name = "sent"
end
