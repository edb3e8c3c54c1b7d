// Bundles src/ into kscope/reports/assets: report.js, report.css and sources.json, the hash of what they were built
// from and their own. `--check` writes nothing and fails where the committed files differ from a fresh build.
import { createHash } from "node:crypto";
import { readFileSync, readdirSync, writeFileSync, mkdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const target = join(here, "../../kscope/reports/assets");

async function bundle(entry, loader) {
  const result = await build({
    entryPoints: [join(here, "src", entry)],
    bundle: true,
    minify: true,
    write: false,
    charset: "ascii",
    legalComments: "none",
    format: loader === "js" ? "iife" : undefined,
    target: ["chrome100", "firefox113", "safari16.4"],
  });
  return result.outputFiles[0].text;
}

function fingerprint() {
  const hash = createHash("sha256");
  for (const name of readdirSync(join(here, "src")).sort()) {
    hash.update(name + "\0" + readFileSync(join(here, "src", name), "utf8") + "\0");
  }
  return hash.digest("hex");
}

const js = await bundle("main.ts", "js");
if (/<\/script|<!--/i.test(js)) throw new Error("the bundle would end its own script element");
const css = await bundle("style.css", "css");
const sha256 = (text) => createHash("sha256").update(text).digest("hex");
const built = { sha256: fingerprint(), "report.js": sha256(js), "report.css": sha256(css) };
const files = { "report.js": js, "report.css": css, "sources.json": JSON.stringify(built) + "\n" };
let stale = 0;
mkdirSync(target, { recursive: true });
for (const [name, text] of Object.entries(files)) {
  const path = join(target, name);
  if (process.argv.includes("--check")) {
    let old = "";
    try { old = readFileSync(path, "utf8"); } catch { /* missing counts as stale */ }
    if (old !== text) { console.error(`${name} is not what the sources build`); stale++; }
  } else {
    writeFileSync(path, text);
    console.log(`${name} ${(text.length / 1024).toFixed(1)} KiB`);
  }
}
process.exit(stale ? 1 : 0);
