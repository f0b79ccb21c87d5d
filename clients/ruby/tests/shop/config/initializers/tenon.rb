Tenon.describe limits: { "reports" => { max_running: 2 } },
               schedules: { "nightly" => { cron: "0 3 * * *", kind: "ReportJob", payload: { arguments: ["nightly"] } } }
