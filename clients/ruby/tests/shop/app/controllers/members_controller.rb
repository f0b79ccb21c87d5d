class MembersController < ApplicationController
  def create
    member = Member.create!(mail: params[:mail])
    render json: { mail: member.mail }, status: :created
  rescue ActiveRecord::RecordNotUnique
    render json: { error: "#{params[:mail]} is a member already" }, status: :conflict
  end
end
