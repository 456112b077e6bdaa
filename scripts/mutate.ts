import { spawn, spawnSync } from "node:child_process";
import { globSync, readFileSync, writeFileSync } from "node:fs";
import { delimiter, join } from "node:path";

import { flagLines, parseFlags, runScript, whole } from "./kit/command.ts";
import { PostgresServer } from "./kit/postgres-server.ts";
import { Random } from "./kit/random.ts";
import { cleanAtExit } from "./kit/scratch.ts";
import { ROOT } from "./manifest.ts";
import { filesOf, groupTests } from "./test-groups.ts";

/**
 * Puts small faults into the sources, one at a time, and lists those that no test of `npm test` catches;
 * of the store on PostgreSQL, no test of its conformance. It changes the checkout in which it runs and
 * restores each file. A seed chooses the same places as long as the sources stay the same.
 */

// As npm run does: oxlint finds its type-aware part there.
process.env["PATH"] = [join(ROOT, "node_modules", ".bin"), process.env["PATH"]].join(delimiter);

const ROOMS = ["domain", "store", "deliver", "run", "http"];
const FAULTS_PER_ROOM = 12;

// Tests of the executable would need a build for each fault.
const DIST = join("test", "dist", "");

/** How a line becomes faulty: `pattern` finds the place, `replace` is what stands there instead. */
interface Fault {
  readonly name: string;
  readonly pattern: RegExp;
  readonly replace: (found: string) => string;
}

const FLIPPED: Readonly<Record<string, string>> = {
  "<": "<=",
  ">": ">=",
  "<=": "<",
  ">=": ">",
  "===": "!==",
  "!==": "===",
};

const FAULTS: readonly Fault[] = [
  {
    name: "flipped comparison",
    pattern: /(?<= )(<|>|<=|>=|===|!==)(?= )/g,
    replace: (found) => FLIPPED[found] ?? found,
  },
  { name: "dropped await", pattern: /(?<=^\s+|= )await (?!using)/g, replace: () => "" },
  // One whole call that is a statement of its own: most of them write something.
  {
    name: "skipped call",
    pattern: /(?<=^\s+)(?:await |yield\* )?(?:this|[a-z]\w*)(?:\.#?\w+)+\(.*\);$/g,
    replace: () => ";",
  },
  {
    name: "wrong code",
    pattern: /\b[245]0[0-9]{3}\b/g,
    replace: (found) => (found === "50000" ? "50300" : "50000"),
  },
  { name: "off by one", pattern: /(?<=[\w)\]]) [-+] 1\b/g, replace: () => "" },
  { name: "off by one", pattern: /\.length\b(?! [-+=!<>])/g, replace: () => ".length + 1" },
];

interface Mutant {
  readonly room: string;
  readonly fault: string;
  readonly file: string;
  /** From 0. */
  readonly line: number;
  readonly text: string;
}

const flags = {
  seed: whole("chooses the places", 1),
  from: whole("the first fault to try", 1),
};

await runScript(async () => {
  const given = parseFlags(flags, process.argv.slice(2));
  if (given === null) return void process.stdout.write(`${flagLines(flags)}\n`);
  const { seed, from } = given;
  const mutants = chooseMutants(new Random(seed));
  await using postgres = await PostgresServer.start();
  const survivors: string[] = [];
  for (const [index, mutant] of mutants.entries()) {
    if (index + 1 < from) continue;
    const start = performance.now();
    const verdict = await judge(mutant, postgres.url);
    const seconds = Math.round((performance.now() - start) / 1000);
    const place = `${mutant.fault}  ${mutant.file}:${mutant.line + 1}  ${mutant.text.trim()}`;
    process.stdout.write(`${index + 1}  ${place}\n      ${verdict ?? "SURVIVED"}  ${seconds} s\n`);
    if (verdict === null) survivors.push(place);
  }
  process.stdout.write(`${survivors.length} of ${mutants.length - from + 1} faults survived\n`);
});

/** Faults of each kind in turn, at most one in a file, and only those that the compiler accepts. */
function chooseMutants(random: Random): readonly Mutant[] {
  return ROOMS.flatMap((room) => {
    const places = FAULTS.map((fault) => placesOf(room, fault));
    const chosen = new Map<string, Mutant>();
    for (
      let turn = 0;
      chosen.size < FAULTS_PER_ROOM && places.some((left) => left.length > 0);
      turn++
    ) {
      const left = places[turn % places.length] ?? [];
      if (left.length === 0) continue;
      const [mutant] = left.splice(random.between(0, left.length - 1), 1);
      if (mutant !== undefined && !chosen.has(mutant.file) && compiles(mutant)) {
        chosen.set(mutant.file, mutant);
      }
    }
    return [...chosen.values()];
  });
}

function placesOf(room: string, { name, pattern, replace }: Fault): Mutant[] {
  return globSync(`src/${room}/**/*.ts`, { cwd: ROOT })
    .toSorted()
    .flatMap((file) => {
      const lines = readFileSync(join(ROOT, file), "utf8").split("\n");
      return lines.flatMap((text, line) => {
        if (/^\s*(\/|\*|import|export (type|interface))|=> \w+;$/.test(text)) return [];
        return [...text.matchAll(pattern)].map((match) => {
          const end = match.index + match[0].length;
          const faulty = text.slice(0, match.index) + replace(match[0]) + text.slice(end);
          return { room, fault: name, file, line, text: faulty };
        });
      });
    });
}

function compiles(mutant: Mutant): boolean {
  using _changed = put(mutant);
  return hasPassed([join("node_modules", ".bin", "tsc"), "--noEmit", "-p", "."]);
}

/** Writes the fault into its file. Disposal restores the file, and so does the end of this process. */
function put({ file, line, text }: Mutant): Disposable {
  const path = join(ROOT, file);
  const original = readFileSync(path, "utf8");
  const restore = cleanAtExit(() => writeFileSync(path, original));
  writeFileSync(path, original.split("\n").with(line, text).join("\n"));
  return { [Symbol.dispose]: restore };
}

/** The first failed step or test, or null if all pass. */
async function judge(mutant: Mutant, postgres: string): Promise<string | null> {
  using _changed = put(mutant);
  const oxlint = [join("node_modules", ".bin", "oxlint"), "--config", "scripts/oxlint.config.ts"];
  if (!hasPassed([...oxlint, "--deny-warnings", mutant.file])) return "lint";
  const builds = ["scripts/dashboard-bundle.ts", "scripts/test-program.ts"];
  if (!builds.every((script) => hasPassed(["--import", "tsx", script]))) return "does not build";
  if (mutant.file.startsWith("src/store/postgres/")) {
    return await firstFailure(filesOf(ROOT, "conformance"), postgres);
  }
  const files = filesOf(ROOT, "test").filter((file) => !file.startsWith(DIST));
  const groups = groupTests(ROOT, files);
  const importsIt = (file: string): boolean =>
    readFileSync(join(ROOT, file), "utf8").includes(`/${mutant.file}"`);
  const near = groups.filter(
    (file) => /pure|group/.test(file) || file.startsWith(join("test", mutant.room, "")),
  );
  // Most faults are caught by the nearest tests, in a fraction of the time.
  return (
    (await firstFailure(files.filter(importsIt))) ??
    (await firstFailure(near)) ??
    (await firstFailure(groups.filter((file) => !near.includes(file))))
  );
}

function hasPassed(args: readonly string[]): boolean {
  return spawnSync(process.execPath, args, { cwd: ROOT }).status === 0;
}

async function firstFailure(files: readonly string[], postgres?: string): Promise<string | null> {
  if (files.length === 0) return null;
  const ownPackage = import.meta.resolve("../test/helpers/own-package.ts");
  const limits = ["--test-concurrency=3", "--test-timeout=180000"];
  const args = ["--import", ownPackage, "--test", "--test-reporter=tap", ...limits, ...files];
  const child = spawn(process.execPath, args, {
    cwd: ROOT,
    // Its own process group, to end it with everything that its tests started.
    detached: true,
    env: {
      ...process.env,
      NODE_COMPILE_CACHE: join(ROOT, "node_modules", ".cache", "compiled"),
      POSTBACKD_TEST_PROGRAM: join(ROOT, "node_modules", ".cache", "program", "main.cjs"),
      POSTBACKD_TEST_PEERS: "",
      POSTBACKD_TEST_POSTGRES_BIN: "none",
      ...(postgres !== undefined && { POSTBACKD_TEST_POSTGRES: postgres }),
    },
    stdio: ["ignore", "pipe", "ignore"],
  });
  const end = cleanAtExit(() => {
    if (child.exitCode === null && child.pid !== undefined) process.kill(-child.pid, "SIGKILL");
  });
  let rest = "";
  try {
    for await (const chunk of child.stdout.setEncoding("utf8")) {
      const lines = `${rest}${chunk}`.split("\n");
      rest = lines.pop() ?? "";
      const failed = lines.find((line) => /^\s*not ok \d+ - /.test(line));
      if (failed !== undefined) return failed.trim().replace(/^not ok \d+ - /, "");
    }
  } finally {
    end();
  }
  return null;
}
