import { TYPE_NAME } from "../domain/lease/lease.ts";
import { DURATION, integerBetween, quote } from "../domain/rule.ts";
import { nearestName } from "../domain/text.ts";
import type { ConfigInput } from "./config.ts";
import { EMBEDDING_SOURCE, isTable, keyPart, type FileTable } from "./file.ts";
import { secretInFile, takeValue, type Findings, type Given } from "./layer.ts";
import { PATH, type SettingRule } from "./setting-rule.ts";
import {
  COMMAND_LINE,
  ENVIRONMENT,
  LEASE_DURATION,
  REQUEST_HEADERS,
  SECRET_FILES,
  SERVICE_URL,
  TASK_FUNCTION,
} from "./type-value.ts";

/** A key of a `[types.NAME]` table. A faulty value is reported, and the default stands in for it. */
interface TypeKey<T> {
  readonly key: string;
  readonly rule: SettingRule<T>;
  /** As in the file. */
  readonly default: unknown;
}

function typeKey<T>(key: string, rule: SettingRule<T>, standard: unknown): TypeKey<T> {
  return { key, rule, default: standard };
}

function limits(concurrency: number) {
  return {
    /** From the start of a run to its end. */
    timeoutMs: typeKey("timeout", DURATION, "10m"),
    /** The most concurrent runs. */
    concurrency: typeKey("concurrency", integerBetween(1, 10_000), concurrency),
    /** Further runs after a failed one; 0 means none. */
    retries: typeKey("retries", integerBetween(0, 100), 0),
  };
}

/** The kinds of runners.md, and the values of each. */
const KINDS = {
  /** `runner = "echo"`: the result is the input. It takes no time, so the limit only decides how many are claimed. */
  echo: limits(256),
  /**
   * `command = […]`: one process for each task. More concurrent runs than a small machine has cores slow all of them
   * down.
   */
  command: {
    ...limits(4),
    /** Program and arguments, without a shell. */
    command: typeKey("command", COMMAND_LINE, ["false"]),
    /** The operator's own variables for the process. They may be secrets: never log them. */
    env: typeKey("env", ENVIRONMENT, {}),
    /** Absolute. The folder of the configuration file unless the type names another. */
    cwd: typeKey("cwd", PATH, "."),
  },
  /** `url = "…"`: a POST to the operator's own service for each task, which waits: the service bears the cost. */
  http: {
    ...limits(16),
    /** http or https. It may hold a secret in its query: never log that. */
    url: typeKey("url", SERVICE_URL, "http://localhost/"),
    /** Headers on top of the runner's own, by lower-case name. They may be secrets: never log them. */
    headers: typeKey("headers", REQUEST_HEADERS, {}),
  },
  /** `runner = "worker"`: external processes claim the tasks (worker-protocol.md). `concurrency` limits their leases. */
  worker: {
    ...limits(10_000),
    /** How long a lease holds without a heartbeat. */
    leaseMs: typeKey("lease", LEASE_DURATION, "30s"),
  },
  /** A function of the embedding program. It shares the daemon's thread, so only runs that wait gain by concurrency. */
  function: { ...limits(16), run: typeKey("run", TASK_FUNCTION, () => null) },
};

type TypeKind = keyof typeof KINDS;

type ValuesOf<Keys> = {
  readonly [Name in keyof Keys]: Keys[Name] extends TypeKey<infer T> ? T : never;
};

export type TypeConfig = {
  readonly [Kind in TypeKind]: { readonly kind: Kind; readonly name: string } & ValuesOf<
    (typeof KINDS)[Kind]
  >;
}[TypeKind];

const KIND_BY_KEY = { command: "command", url: "http", run: "function" } as const;

const KIND_KEYS = ["runner", "command", "url", "run"] as const;

/** Keys whose values may be in files, and the key that names the files. */
const FILES_OF = { env: "env_files", headers: "header_files" } as const;

/** The kinds that each key is for. */
const KINDS_OF: ReadonlyMap<string, readonly string[]> = kindsByKey();

function kindsByKey(): Map<string, readonly string[]> {
  const kinds = new Map<string, readonly string[]>(KIND_KEYS.map((key) => [key, []]));
  kinds.set("runner", ["echo", "worker"]);
  for (const [kind, keys] of Object.entries(KINDS)) {
    for (const { key } of Object.values<TypeKey<unknown>>(keys)) {
      kinds.set(key, [...(kinds.get(key) ?? []), kind]);
    }
  }
  for (const [key, files] of Object.entries(FILES_OF)) kinds.set(files, kinds.get(key) ?? []);
  return kinds;
}

/** A type as it is in the file, with everything that is needed to judge it. */
interface TypeEntry extends Omit<Given, "raw"> {
  readonly name: string;
  /** `types.NAME`. */
  readonly key: string;
  readonly table: FileTable;
  readonly findings: Findings;
  readonly readFile: ConfigInput["readFile"];
}

/** The configured task types by name; a single `echo` when none is configured. */
export function parseTypes(
  given: Given | undefined,
  by: Pick<TypeEntry, "findings" | "readFile">,
): ReadonlyMap<string, TypeConfig> {
  const { raw, source, folder } = given ?? { raw: {}, source: "default", folder: "/" };
  const types = new Map<string, TypeConfig>();
  if (!isTable(raw)) {
    by.findings.problems.push({
      key: "types",
      source,
      message: "types must be tables: [types.NAME]",
    });
    return types;
  }
  for (const [name, value] of Object.entries(raw)) {
    const key = `types.${keyPart(name)}`;
    const table = toTypeTable(value, source);
    const type =
      table === null
        ? report({ key, source, findings: by.findings }, `must be a table: [${key}]`)
        : parseType({ name, key, table, source, folder, ...by });
    if (type !== null) types.set(name, type);
  }
  if (Object.keys(raw).length > 0) return types;
  return parseTypes({ raw: { echo: { runner: "echo" } }, source: "default", folder }, by);
}

/** Null when the type has no usable kind; every fault is reported either way. */
function parseType(given: TypeEntry): TypeConfig | null {
  const entry = { ...given, table: { ...given.table, ...textsInFiles(given) } };
  if (TYPE_NAME.parse(entry.name).kind === "fault") {
    report(entry, `must have a name of ${TYPE_NAME.takes}`);
  }
  const kind = parseKind(entry);
  reportMisplacedKeys(given, kind);
  // The limits of a type without a kind are still checked; an echo has only these.
  const values = Object.entries<TypeKey<unknown>>(KINDS[kind ?? "echo"]).map(([name, key]) => [
    name,
    takeField(entry, key),
  ]);
  if (kind === null) return null;
  // Each name holds the value that its own key's rule gave.
  return Object.freeze({ kind, name: entry.name, ...Object.fromEntries(values) }) as TypeConfig;
}

/** The table of a type. A function alone stands for one: only a program that embeds the daemon can give it. */
function toTypeTable(value: unknown, source: string): FileTable | null {
  if (isTable(value)) return value;
  return source === EMBEDDING_SOURCE && typeof value === "function" ? { run: value } : null;
}

/** A file that uses a key which no file can hold uses an unknown key. */
function isKnown(name: string, { source }: TypeEntry): boolean {
  return KINDS_OF.has(name) && (name !== "run" || source === EMBEDDING_SOURCE);
}

/** The type's kind; null, and reported, when it has none or several. */
function parseKind(entry: TypeEntry): TypeKind | null {
  const given = KIND_KEYS.filter((key) => Object.hasOwn(entry.table, key) && isKnown(key, entry));
  const [only] = given;
  if (only === undefined) {
    const kinds =
      'command = ["program", "argument"], url = "http://…", or runner = "worker" or "echo"';
    const own = entry.source === EMBEDDING_SOURCE ? "a function (run), " : "";
    return report(entry, `has no kind: give ${own}${kinds}`);
  }
  if (given.length > 1) {
    return report(entry, `has more than one kind (${given.join(", ")}): give exactly one`);
  }
  if (only !== "runner") return KIND_BY_KEY[only];
  const { runner } = entry.table;
  if (runner === "echo" || runner === "worker") return runner;
  const at = { ...entry, key: `${entry.key}.runner` };
  return report(at, `must be "echo" or "worker", not ${quote(runner)}`);
}

/** Reports keys that no type has and, when the kind is known, keys of other kinds. */
function reportMisplacedKeys(entry: TypeEntry, kind: TypeKind | null): void {
  for (const name of Object.keys(entry.table)) {
    const at = { ...entry, key: `${entry.key}.${keyPart(name)}` };
    const kinds = KINDS_OF.get(name);
    if (kinds === undefined || !isKnown(name, entry)) {
      const known = [...KINDS_OF.keys()].filter((key) => isKnown(key, entry));
      report(at, `is an unknown key; did you mean ${nearestName(name, known)}?`);
    } else if (kind !== null && !kinds.includes(kind)) {
      report(at, `is for ${kinds.join(" and ")} types only, and this one is ${kind}`);
    }
  }
}

function takeField<T>(entry: TypeEntry, { key, rule, default: standard }: TypeKey<T>): T {
  const { source, folder, findings } = entry;
  const raw = entry.table[key];
  return takeValue(rule, {
    key: `${entry.key}.${key}`,
    given: raw === undefined ? undefined : { raw, source, folder },
    fallback: { raw: standard, source: "default", folder },
    findings,
  });
}

/** The tables of {@link FILES_OF} with the texts of the files in them. Every file that cannot be used is reported. */
function textsInFiles(entry: TypeEntry): FileTable {
  const tables = Object.entries(FILES_OF).flatMap(([key, filesKey]) => {
    const at = { ...entry, key: `${entry.key}.${filesKey}` };
    const files = SECRET_FILES.parse(entry.table[filesKey] ?? {}, entry.folder);
    if (files.kind === "fault") report(at, files.reason);
    const own = entry.table[key] ?? {};
    if (files.kind === "fault" || !isTable(own)) return [];
    const texts = Object.entries(files.value).map(([name, file]) => {
      const unusable = (reason: string): null => report(at, `${keyPart(name)}: ${reason}`);
      const text = Object.hasOwn(own, name)
        ? unusable(`${entry.key}.${key} has it too: remove one of the two`)
        : secretInFile(file, { readFile: entry.readFile, unusable });
      return [name, text ?? ""];
    });
    return texts.length === 0 ? [] : [[key, { ...own, ...Object.fromEntries(texts) }]];
  });
  return Object.fromEntries(tables) as FileTable;
}

/** Reports a fault; `reason` completes "KEY …". Returns null, so that a caller can return it. */
function report(
  at: { readonly key: string; readonly source: string; readonly findings: Findings },
  reason: string,
): null {
  at.findings.problems.push({ key: at.key, source: at.source, message: `${at.key} ${reason}` });
  return null;
}
