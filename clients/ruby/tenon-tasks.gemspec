require_relative "lib/tenon/version"

Gem::Specification.new do |spec|
  spec.name = "tenon-tasks"
  spec.version = Tenon::VERSION
  spec.summary = "Transactional background tasks for PostgreSQL: enqueue, handlers, and an adapter for ActiveJob"
  spec.authors = ["tenon"]
  spec.license = "MIT"
  spec.required_ruby_version = ">= 3.1"
  spec.files = Dir["lib/**/*.rb", "exe/*", "README.md"]
  spec.bindir = "exe"
  spec.executables = ["tenon_worker"]
  spec.metadata["rubygems_mfa_required"] = "true"
end
