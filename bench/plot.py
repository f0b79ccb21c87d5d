"""The plots of docs/benchmarks.md, drawn by gnuplot from the medians."""
import os
import subprocess

# One colour per system, in the order of the legend; easy to tell apart also without colours seen well.
COLOURS = {"tenon": "#0b6e4f", "river": "#2a9d8f", "graphile-worker": "#c8553d", "pg-boss": "#e0a458", "bullmq": "#6a7fdb",
           "celery": "#8d99ae", "limit": "#444444"}
STYLE = """
set terminal svg size 760,360 font 'sans-serif,12' background '#ffffff'
set output '{file}'
set title '{title}' noenhanced
set border 3
set tics nomirror out
set grid y lc rgb '#dddddd'
set key outside right top noenhanced samplen 1
set style fill solid
set yrange [0:*]
set format y '%{y_format}'
"""


def draw(file, title, body, y_format=".0f"):
    os.makedirs(os.path.dirname(file), exist_ok=True)
    text = STYLE.format(file=file, title=title, y_format=y_format) + body
    subprocess.run(["gnuplot"], input=text, text=True, check=True)


def bars(file, title, groups, series, y_format=".0f"):
    """`series`: [(name, colour, [a value or None for each group])]. A bar that is missing leaves a gap."""
    body, plots = "", []
    width = 0.8 / len(series)
    for i, (name, colour, values) in enumerate(series):
        body += f"$d{i} << END\n"
        for group, value in enumerate(values):
            if value is not None:
                body += f"{group + (i - (len(series) - 1) / 2) * width} {value}\n"
        body += "END\n"
        plots.append(f"$d{i} using 1:2 with boxes lc rgb '{colour}' title '{name}'")
    ticks = ", ".join(f"'{name}' {i}" for i, name in enumerate(groups))
    body += f"set boxwidth {width * 0.9}\nset xtics ({ticks})\nset xrange [-0.6:{len(groups) - 0.4}]\n"
    draw(file, title, body + "plot " + ", ".join(plots) + "\n", y_format)


def lines(file, title, x_label, series, log_x=False, y_format=".0f"):
    """`series`: [(name, colour, [(x, y)])]."""
    body = f"set xlabel '{x_label}'\n" + ("set logscale x\nset format x '%.0s%c'\n" if log_x else "")
    plots = []
    for i, (name, colour, points) in enumerate(series):
        body += f"$d{i} << END\n" + "".join(f"{x} {y}\n" for x, y in points) + "END\n"
        plots.append(f"$d{i} using 1:2 with linespoints lw 2 pt 7 ps 0.6 lc rgb '{colour}' title '{name}'")
    draw(file, title, body + "plot " + ", ".join(plots) + "\n", y_format)
