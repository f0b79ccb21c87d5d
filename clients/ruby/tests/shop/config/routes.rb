Rails.application.routes.draw do
  resources :members, only: :create
end
