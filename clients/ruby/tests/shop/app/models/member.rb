class Member < ApplicationRecord
  after_create { WelcomeJob.perform_later(self) } # in the transaction, and not after_commit: both, or neither
end
