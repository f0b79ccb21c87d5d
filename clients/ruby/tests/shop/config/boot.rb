# An application with a Gemfile sets Bundler up here, which loads this.
require "pathname"
