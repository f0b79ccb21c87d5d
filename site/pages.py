"""What MkDocs asks while script/site builds the site: its pages are those that docs/README.md names, wherever they are in the
repository, and its navigation is that page's sections. Also writes llms.txt, the same index as plain text."""
import logging
import os
import re

from mkdocs.structure.files import File

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
INDEX = "docs/README.md"
DRAWER = "mermaid.min.js"
FENCE = re.compile(r"(^```.*?^```$)", re.M | re.S)
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s:]+)\)")
ROW = re.compile(r"^\|.*$", re.M)
log = logging.getLogger("mkdocs.pages")


def text_of(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def index():
    """The sections of docs/README.md: (heading, [(title, path from the root, what the reader finds there)])."""
    sections = []
    for line in re.sub(r"\n +", " ", text_of(INDEX)).splitlines():
        if line.startswith("## "):
            sections.append((line[3:], []))
        elif found := re.fullmatch(r"- \[(.+?)\]\((\S+?)\): (.+)", line):
            sections[-1][1].append((found[1], os.path.normpath(os.path.join("docs", found[2])), found[3]))
    return sections


def place(path):
    """Where a file of the repository, or the list of a folder's pages, is in the site."""
    if path.startswith("docs/"):
        return path[5:] + ("/index.md" if path in FOLDERS else "")
    if path == "README.md":
        return "overview.md"
    if path.endswith(".md"):
        return path.replace("/README.md", ".md").lower()
    return path + ".md"


SECTIONS = index()
NAMED = [path for _, entries in SECTIONS for _, path, _ in entries]
# folders that the index names, with their pages
FOLDERS = {path: sorted(os.path.join(path, name) for name in os.listdir(os.path.join(ROOT, path)))
           for path in NAMED if os.path.isdir(os.path.join(ROOT, path))}
PAGES = {place(path): path for path in [INDEX, "README.md", *NAMED, *sum(FOLDERS.values(), [])]}


def heading(path):
    return re.search(r"^# (.*)", text_of(path), re.M)[1]


def anchor(words, separator):
    """As script/check-paths has it, and the hosts of repositories."""
    return re.sub(r"[^\w -]", "", words.lower()).replace(" ", separator)


def on_config(config):
    config.mdx_configs["toc"] = {"slugify": anchor, "permalink": True}
    config.nav = [{"tenon": [place(INDEX), {"On one page": place("README.md")}]}]
    for title, entries in SECTIONS:
        config.nav.append({title: [{name: [place(path), *map(place, FOLDERS[path])] if path in FOLDERS else place(path)}
                                   for name, path, _ in entries]})
    return config


def on_files(files, config):
    for path in ("site/site.css", "build/site-env/" + DRAWER):
        files.append(File.generated(config, os.path.basename(path), abs_src_path=os.path.join(ROOT, path)))
    for where, path in PAGES.items():
        if path in FOLDERS:
            pages = [f"- [{heading(page)}]({os.path.basename(page)})\n" for page in FOLDERS[path]]
            files.append(File.generated(config, where, content=f"# {os.path.basename(path).title()}\n\n{''.join(pages)}"))
        elif not path.endswith(".md"):
            content = f"# {os.path.basename(path)}\n\n```{os.path.splitext(path)[1][1:]}\n{text_of(path)}```\n"
            files.append(File.generated(config, where, content=content))
        elif not path.startswith("docs/"):
            files.append(File.generated(config, where, abs_src_path=os.path.join(ROOT, path)))
    return files


def plain_bars(row):
    """Python-Markdown knows that a bar in code does not end a cell, and would show the \\ that others need before it."""
    return re.sub(r"`[^`]*`", lambda code: code[0].replace("\\|", "|"), row[0])


def on_page_markdown(markdown, page, config, **_):
    """Links of the repository become links of the site, or lead to the repository's files."""
    here = page.file.src_uri
    own = PAGES.get(here, "docs/" + here)
    if os.path.dirname(own) in FOLDERS:
        page.meta["search"] = {"boost": 0.3}  # reasons come after rules

    def link(found):
        image, text, target = found.groups()
        target, _, section = target.partition("#")
        path = os.path.normpath(os.path.join(os.path.dirname(own), target)) if target else own
        if own in FOLDERS or not target:
            return found[0]
        if not os.path.exists(os.path.join(ROOT, path)):
            log.warning("%s: the link %s leads nowhere", own, found[3])
        elif place(path) in PAGES or (path.startswith("docs/") and os.path.isfile(os.path.join(ROOT, path))):
            there = os.path.relpath(place(path), os.path.dirname(here))
            return f"{image}[{text}]({there}{'#' + section if section else ''})"
        elif config.extra["files"]:
            return f"{image}[{text}]({config.extra['files']}{path}{'#' + section if section else ''})"
        return f'<span title="{path} in the repository">{text}</span>'

    return "".join(part if part.startswith("```") else ROW.sub(plain_bars, LINK.sub(link, part)) for part in FENCE.split(markdown))


def on_page_content(html, page, **_):
    """The page's own copy of Mermaid, else the theme would ask another host for it."""
    if 'class="mermaid"' in html:
        html += f'<script src="{os.path.relpath(DRAWER, page.url)}"></script>'
    return html


def on_env(env, files, **_):
    on_env.urls = {file.src_uri: file.url for file in files}
    return env


def on_post_build(config):
    lines = ["# tenon", "", "> " + " ".join(text_of(INDEX).split("\n\n")[1].split("\n"))]
    for title, entries in SECTIONS:
        lines += ["", "## " + title, ""]
        lines += [f"- [{name}]({on_env.urls[place(path)]}): {text}" for name, path, text in entries]
    with open(os.path.join(config.site_dir, "llms.txt"), "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
