ActiveRecord::Schema.define(version: 1) do
  create_table "members", force: :cascade do |t|
    t.string "mail", null: false
    t.index ["mail"], unique: true
  end

  create_table "sent", force: :cascade do |t|
    t.string "text", null: false
  end
end
