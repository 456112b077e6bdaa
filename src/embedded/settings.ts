import { type Config, loadConfig, nearestName } from "../config/config.ts";
import { type FileTable, isTable, keyPart } from "../config/file.ts";
import { type Clock, systemClock } from "../domain/clock/clock.ts";
import { type Logger, SILENT, guarded, isLogger } from "../domain/log.ts";
import { createLogger } from "../log.ts";
import type { DaemonSettings } from "./options.ts";

export interface EmbeddedSettings {
  readonly config: Config;
  readonly clock: Clock;
  readonly log: NonNullable<DaemonSettings["log"]>;
}

/**
 * Reads the settings of a program that embeds the daemon, as carefully as a file: the program may be without types.
 * Throws one Error that names everything that is wrong, and `caller`, the function that was given the settings.
 * An unnamed database is at `database`; relative paths are relative to `cwd`.
 */
export function readSettings(
  settings: unknown,
  place: { readonly database: string; readonly cwd: string; readonly caller?: string },
): EmbeddedSettings {
  const { caller = "createDaemon" } = place;
  if (!isTable(settings)) {
    throw settingsError(caller, ["its settings must be an object, { types: { … } }"]);
  }
  const { config = {}, types, port = 0, database = place.database } = settings;
  const { clock = systemClock, log = false } = settings;
  const problems = [...unknownSettings(settings), ...configProblems(config)];
  if (!isTable(types) || Object.keys(types).length === 0) {
    problems.push("types is missing: give at least one, such as { double: async (task) => … }");
  }
  if (!isClock(clock)) {
    problems.push("clock must have now, monotonic, uptime and setTimer, as createVirtualClock's");
  }
  if (!isLog(log)) {
    problems.push("log must be true, or a logger with debug, info, warn and error");
  }
  const table = toTable(
    { ...(isTable(config) ? config : {}), types, port, database, dashboard: false },
    3,
  );
  const verdict = loadConfig({
    flags: {},
    env: {},
    cwd: place.cwd,
    table,
    // The program has no say in anything of the machine.
    readFile: () => null,
    isTerminal: process.stderr.isTTY,
  });
  if (verdict.kind === "problems") {
    // Without their source, because there is only this one.
    problems.push(...verdict.problems.map(({ message }) => message));
  }
  if (problems.length > 0 || verdict.kind === "problems" || !isClock(clock) || !isLog(log)) {
    throw settingsError(caller, problems);
  }
  return { config: verdict.config, clock, log };
}

const SETTINGS = ["types", "config", "database", "port", "clock", "log"];

/** Keys of the file that are separate settings here, or of no use. */
export const OTHERWISE: ReadonlyMap<string, string> = new Map([
  ["types", "give types beside config"],
  ["database", "give database beside config"],
  ["port", "give port beside config"],
  ["ready_file", "leave it out: createDaemon settles when it is ready"],
  ["dashboard", "leave it out: a daemon that is part of a program serves none"],
  ["public_url", "leave it out: a daemon that is part of a program serves no dashboard"],
]);

function unknownSettings(settings: FileTable): string[] {
  const unknown = Object.keys(settings).filter((name) => !SETTINGS.includes(name));
  return unknown.map((name) => {
    const nearest = nearestName(name, SETTINGS);
    return `${keyPart(name)} is an unknown setting; did you mean ${nearest}?`;
  });
}

function configProblems(config: unknown): string[] {
  if (!isTable(config)) return ["config must be an object, with the keys of postbackd.toml"];
  return Object.keys(config).flatMap((key) => {
    const otherwise = OTHERWISE.get(key);
    return otherwise === undefined ? [] : [`config.${key} is not read: ${otherwise}`];
  });
}

/** Converts a table to the form that the parsers of the file take: an undefined member is one that was not given. */
function toTable(table: FileTable, levels: number): FileTable {
  const given = Object.entries(table).filter(([, value]) => value !== undefined);
  return Object.fromEntries(
    given.map(([key, value]) => {
      return [key, levels > 1 && isTable(value) ? toTable(value, levels - 1) : value];
    }),
  );
}

function isClock(value: unknown): value is Clock {
  if (typeof value !== "object" || value === null) return false;
  const methods = ["now", "monotonic", "uptime", "setTimer"];
  return methods.every((name) => typeof Reflect.get(value, name) === "function");
}

function isLog(value: unknown): value is EmbeddedSettings["log"] {
  return typeof value === "boolean" || isLogger(value);
}

function settingsError(caller: string, problems: readonly string[]): Error {
  return new Error(`${caller} cannot start:\n${problems.map((text) => `- ${text}`).join("\n")}`);
}

/** Writes nothing unless asked; a program's own logger cannot bring the daemon down. */
export function toLogger(given: EmbeddedSettings["log"], { log }: Pick<Config, "log">): Logger {
  if (given === false) return guarded(SILENT);
  return guarded(given === true ? createLogger(log) : given);
}
