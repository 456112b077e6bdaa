/**
 * Which part of `src` may import what: the architecture as a table, enforced by the linter. Imports
 * point inwards, towards `domain`; what a ring does not name, it may not import.
 */
export interface Ring {
  /** Its files: all of a folder (`run/*`) or one (`main.ts`). */
  readonly files: string;
  /** Its further imports of `src`, in the same notation, also of a ring in its own folders. */
  readonly imports: readonly string[];
  /** Packages, with everything below them (`h3` is `h3/node` too). */
  readonly packages: readonly string[];
  /** Modules of Node, without `node:`, with everything below them. */
  readonly node: readonly string[];
}

// Values and plumbing: no file, no connection, no process, no clock.
const PLUMBING = ["assert", "async_hooks", "buffer", "events", "path", "stream", "url", "util"];
const NETWORK = ["dns", "http", "https", "net", "tls"];
const MACHINE = ["fs", "os", "process"];
const ENGINE_STORE = ["store/store.ts", "store/loop.ts", "store/retry.ts"];

export const RINGS: readonly Ring[] = [
  { files: "domain/*", imports: [], packages: [], node: ["crypto"] },
  // The one clock that there is: it asks the machine for its time.
  {
    files: "domain/clock/clock.ts",
    imports: ["domain/clock/timers.ts"],
    packages: [],
    node: ["fs", "os"],
  },
  // The checksum of keys.
  {
    files: "domain/account/key.ts",
    imports: ["domain/*", "domain/account/*"],
    packages: [],
    node: ["crypto", "zlib"],
  },
  // Shapes of what is sent, for both ends: the browser's too, so nothing of Node.
  { files: "api/*", imports: ["domain/*"], packages: [], node: [] },
  { files: "store/*", imports: ["domain/*"], packages: [], node: [] },
  { files: "store/common/*", imports: ["domain/*", "store/store.ts"], packages: [], node: [] },
  // Nouns without a hot path, once for both databases.
  {
    files: "store/sql/*",
    imports: ["domain/*", "store/store.ts", "store/common/*"],
    packages: [],
    node: [],
  },
  {
    files: "store/sqlite/*",
    imports: [
      ...["store/sql/*", "store/sqlite/machine/*"],
      ...["domain/*", "store/store.ts", "store/common/*", "assets.ts"],
    ],
    packages: ["better-sqlite3"],
    node: ["crypto", "perf_hooks", "worker_threads", ...MACHINE, ...PLUMBING],
  },
  // The maintenance of a file, independent of its tables: it knows no noun.
  {
    files: "store/sqlite/machine/*",
    imports: [
      ...["store/common/*", "store/store-error.ts"],
      ...["domain/error.ts", "domain/log.ts", "assets.ts"],
    ],
    packages: ["better-sqlite3"],
    node: ["perf_hooks", "worker_threads", ...MACHINE, ...PLUMBING],
  },
  {
    files: "store/postgres/*",
    imports: [
      ...["store/sql/*", "store/postgres/machine/*"],
      ...["domain/*", "store/store.ts", "store/common/*", "assets.ts"],
    ],
    packages: ["pg"],
    node: ["crypto", "perf_hooks", ...PLUMBING],
  },
  // The maintenance of a node's part of PostgreSQL, independent of its tables: it knows no noun.
  {
    files: "store/postgres/machine/*",
    imports: [
      ...["store/common/*", "store/store-error.ts", "store/cluster.ts"],
      ...["domain/error.ts", "domain/clock/*", "domain/address/*"],
      ...["domain/log.ts", "assets.ts"],
    ],
    packages: ["pg"],
    node: ["crypto", "fs", "net", "tls", "perf_hooks", ...PLUMBING],
  },
  // From one store to the other: it knows the tables of both.
  {
    files: "store/move/*",
    imports: [
      ...["domain/*", "store/store-error.ts", "store/sqlite/machine/*", "store/postgres/machine/*"],
      "assets.ts",
    ],
    packages: [],
    node: ["crypto", ...MACHINE, ...PLUMBING],
  },
  // Webhooks, and what every connection that the program opens is made with: it knows no task.
  {
    files: "deliver/*",
    imports: ["domain/*", ...ENGINE_STORE, "node-internals.ts"],
    packages: [],
    // fs and os for what the machine says of names and addresses: the hosts file, its interfaces.
    node: ["crypto", "fs", "os", "zlib", ...NETWORK, ...PLUMBING],
  },
  // Tasks, and the engine that joins them with their webhooks.
  {
    files: "run/*",
    imports: ["domain/*", ...ENGINE_STORE, "deliver/*", "node-internals.ts"],
    packages: ["croner"],
    node: ["child_process", "crypto", ...MACHINE, ...PLUMBING],
  },
  // Use cases of the operator, for commands and the API.
  { files: "admin/*", imports: ["api/*", "domain/*", "store/store.ts"], packages: [], node: [] },
  {
    files: "http/*",
    imports: ["admin/*", "api/*", "domain/*", "store/store.ts", "assets.ts", "node-internals.ts"],
    packages: ["h3", "listhen", "srvx"],
    node: ["crypto", "http", "https", "zlib", ...PLUMBING],
  },
  // The additions of `postbackd dev`, between the parts of the daemon.
  {
    files: "dev/*",
    imports: [
      ...["domain/*", "store/store.ts", "run/runner.ts", "verify.ts"],
      ...["admin/account.ts", "api/*", "http/*"],
    ],
    packages: [],
    // child_process and net for what outlives a process that is killed.
    node: ["crypto", "child_process", "net", ...PLUMBING],
  },
  // The parser of long bodies in its own thread, for both rings.
  {
    files: "parser/*",
    imports: ["domain/*", "http/long-bodies.ts", "run/service-result.ts", "assets.ts"],
    packages: [],
    node: ["worker_threads", ...PLUMBING],
  },
  // The client that other programs import, in any runtime: of both only types, so that it stays small.
  { files: "client/*", imports: ["api/*", "domain/*"], packages: [], node: [] },
  // A daemon for tests, here or elsewhere: the client of it, and what starts it.
  {
    files: "testing/*",
    imports: ["client/*", "domain/*", "embedded/*", "node-version.ts"],
    packages: [],
    node: [],
  },
  // The code of the browser: a client of the API.
  {
    files: "dashboard/*",
    imports: ["api/*", "domain/*"],
    packages: ["preact", "@preact/signals"],
    node: [],
  },
  // `postbackd worker`, and the library that programs make workers with: clients of the API in processes of their own.
  {
    files: "worker/*",
    imports: [
      ...["api/*", "domain/*", "deliver/service-client.ts", "deliver/service-retry.ts"],
      ...["run/command.ts", "run/function.ts", "run/processes.ts"],
      ...["run/program.ts", "run/runner.ts"],
    ],
    packages: [],
    node: PLUMBING,
  },
  // `postbackd listen`: a client of the API that shows an account's webhooks to a local receiver.
  {
    files: "listen/*",
    imports: [
      ...["api/*", "domain/*", "deliver/resolver.ts", "deliver/send.ts"],
      ...["deliver/service-client.ts", "deliver/service-retry.ts", "deliver/trust.ts"],
    ],
    packages: [],
    node: PLUMBING,
  },
  {
    files: "cli/*",
    imports: [
      "admin/*",
      "api/*",
      "listen/*",
      "worker/*",
      "config/*",
      "daemon/*",
      "dev/*",
      "domain/*",
      "ops/*",
      "store/store.ts",
      ...["store/move/move.ts", "store/move/sides.ts"],
      "store/sqlite/machine/schema.ts",
      "assets.ts",
      "log.ts",
    ],
    packages: ["@bomb.sh/tab", "citty"],
    node: ["readline", "tty", ...MACHINE, ...PLUMBING],
  },
  // Conditions and metrics for the operator; the database with its watches and backups.
  {
    files: "ops/*",
    imports: [
      ...["config/*", "domain/*", "store/*", "store/sqlite/*", "store/postgres/*", "store/move/*"],
      ...["deliver/*", "run/*", "assets.ts", "api/node.ts"],
      ...["http/metrics/*", "http/server/listen.ts", "http/reference/markup.ts"],
    ],
    packages: [],
    node: ["crypto", ...MACHINE, ...PLUMBING],
  },
  {
    files: "daemon/*",
    imports: [
      ...[
        "ops/*",
        "config/*",
        "domain/*",
        "store/*",
        "store/sqlite/*",
        "store/postgres/*",
        "store/move/*",
      ],
      ...["deliver/*", "run/*"],
      ...["http/*", "parser/*", "dev/*", "assets.ts"],
    ],
    packages: [],
    node: ["crypto", "perf_hooks", ...MACHINE, ...PLUMBING],
  },
  // The daemon for programs that embed it.
  {
    files: "embedded/*",
    imports: ["daemon/*", "ops/*", "dev/*", "config/*", "domain/*", "assets.ts", "log.ts"],
    packages: [],
    node: ["crypto", "http", ...MACHINE, ...PLUMBING],
  },
  {
    files: "config/*",
    imports: ["domain/*"],
    packages: ["croner", "smol-toml"],
    node: [...MACHINE, ...PLUMBING],
  },
  {
    files: "log.ts",
    imports: ["domain/*"],
    packages: ["pino"],
    node: ["fs", "process", ...PLUMBING],
  },
  // Undocumented functions of Node.
  {
    files: "node-internals.ts",
    imports: ["domain/*"],
    packages: [],
    node: ["child_process", "http", "net", "util"],
  },
  { files: "assets.ts", imports: [], packages: [], node: ["fs", ...PLUMBING] },
  {
    files: "main.ts",
    imports: ["cli/*", "young-generation.ts"],
    packages: [],
    node: ["fs", "process"],
  },
  {
    files: "command.ts",
    imports: ["main.ts", "node-version.ts"],
    packages: [],
    node: ["process"],
  },
  { files: "node-version.ts", imports: ["domain/*"], packages: [], node: [] },
  { files: "young-generation.ts", imports: [], packages: [], node: ["perf_hooks", "v8"] },
  { files: "worker.ts", imports: ["worker/*", "domain/*"], packages: [], node: [] },
  // For receivers, in any runtime that knows Web Crypto.
  { files: "verify.ts", imports: [], packages: [], node: [] },
  {
    files: "index.ts",
    imports: ["verify.ts", "embedded/*", "domain/*", "node-version.ts"],
    packages: [],
    node: [],
  },
];
