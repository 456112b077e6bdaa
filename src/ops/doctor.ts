import { existsSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";

import { type Config, type ConfigProblem, problemText } from "../config/config.ts";
import type { Clock } from "../domain/clock/clock.ts";
import { DAY_MS } from "../domain/clock/duration.ts";
import { timeText } from "../domain/clock/time.ts";
import { messageOf } from "../domain/error.ts";
import { readServedFile } from "../store/sqlite/served-file.ts";
import { BackupFolder, type ScheduledCopy } from "./backup.ts";
import {
  type Finding,
  checkAuthorities,
  checkCertificate,
  failure,
  conditionsOf,
  validityOf,
  filesWanted,
  missingPrograms,
  retentionWarning,
  skipped,
  sound,
  warning,
} from "./check.ts";
import {
  checkAddon,
  checkContent,
  checkDatabase,
  checkRoom,
  lostHolder,
} from "./database-checks.ts";
import { databaseOf } from "./database-of.ts";
import { askHealth } from "./health.ts";
import { checkEvents, checkResolver, checkTargets } from "./url.ts";

export type { Finding, Verdict } from "./check.ts";

/** A configuration to examine, or the draft of a wrong one with its problems in words. */
export interface Patient {
  readonly config: Config;
  readonly problems: readonly ConfigProblem[];
  readonly clock: Clock;
  readonly env: Readonly<Record<string, string | undefined>>;
}

type Found = Finding | readonly Finding[];

interface Check {
  readonly run: (patient: Patient) => Found | Promise<Found>;
  /** The checks whose failure would make its result misleading. */
  readonly after?: readonly string[];
  /** The settings without which it would examine something else. All checks need the file (`config`). */
  readonly settings?: readonly string[];
}

const [ofDatabase, needsAddon] = [{ settings: ["database"] }, { after: ["addon"] }];

const CHECKS: Readonly<Record<string, Check>> = {
  configuration: { run: checkConfiguration },
  addon: { run: ({ config }) => checkAddon(config), ...ofDatabase },
  database: { run: ({ config, clock }) => checkDatabase(config, clock.now()), ...ofDatabase },
  content: { run: ({ config }) => checkContent(config), ...ofDatabase, ...needsAddon },
  room: { run: ({ config, clock }) => checkRoom(config, clock.now()), ...ofDatabase },
  backups: {
    run: ({ config, clock }) => checkBackups(config, clock.now()),
    settings: ["database", "backup.folder", "backup.schedule"],
    after: ["addon", "content"],
  },
  daemon: { run: ({ config, clock }) => checkDaemon(config, clock), ...ofDatabase, ...needsAddon },
  certificate: { run: ({ config, clock }) => checkTls(config, clock) },
  commands: { run: checkCommands },
  authorities: { run: ({ config }) => checkTrust(config) },
  targets: { run: ({ config }) => checkTargets(config), settings: ["webhooks.allow"] },
  resolver: {
    run: ({ config, clock }) => checkResolver(config, clock),
    settings: ["webhooks.dns_servers"],
  },
  events: {
    run: ({ config, clock }) => checkEvents(config, clock),
    settings: ["webhooks.allow", "webhooks.dns_servers"],
  },
  clock: { run: ({ clock }) => checkClock(clock.now()) },
  limits: {
    run: ({ config }) => checkLimits(config, limitedProcess(config)),
    ...ofDatabase,
    ...needsAddon,
  },
};

/** Examines what a daemon of this configuration needs, and changes nothing. Reads the whole database. Never rejects. */
export async function examine(patient: Patient): Promise<readonly Finding[]> {
  const findings: Finding[] = [];
  for (const [name, check] of Object.entries(CHECKS)) {
    const obstacle = obstacleOf(name, { check, findings, patient });
    if (obstacle !== null) {
      findings.push(skipped(name, `not checked, because ${obstacle} failed`));
      continue;
    }
    try {
      findings.push(...[await check.run(patient)].flat());
    } catch (error) {
      const detail = `it could not be looked at: ${messageOf(error)}`;
      findings.push(failure(name, detail, "fix that first, then run it again"));
    }
  }
  return findings;
}

/** The failed check without which this one would mislead; null if it can be done. */
function obstacleOf(
  name: string,
  {
    check: { settings = [], after = [] },
    findings,
    patient,
  }: {
    readonly check: Check;
    readonly findings: readonly Finding[];
    readonly patient: Patient;
  },
): string | null {
  const isSettingWrong = patient.problems.some(
    ({ key }) => key === "config" || settings.includes(key),
  );
  if (isSettingWrong && name !== "configuration" && name !== "clock") return "configuration";
  const hasFailed = (other: string): boolean =>
    findings.some((each) => each.check === other && each.verdict === "failed");
  return after.find(hasFailed) ?? null;
}

function checkConfiguration({ config, problems, clock }: Patient): readonly Finding[] {
  if (problems.length > 0) {
    return problems.map((problem) =>
      failure(
        "configuration",
        problemText(problem),
        "fix it; 'postbackd config check' lists all problems",
      ),
    );
  }
  const facts = { now: clock.now(), retention: retentionWarning(config) };
  return conditionsOf("configuration", facts, config.file ?? "no file; all defaults");
}

// A weekly schedule is the least frequent one to expect.
const BACKUP_AGE_MS_MAX = 8 * DAY_MS;

function checkBackups(config: Config, now: number): readonly Finding[] {
  if (config.server !== null) return [];
  const { installation } = readServedFile(config.database);
  const newest = installation === null ? null : new BackupFolder(config, installation).newest();
  if (config.backup.schedule === null) {
    const detail = "no backup.schedule is set: another program has to make backups";
    return [newest === null ? skipped("backups", detail) : aged(newest, now)];
  }
  const remedy = "see the log of the daemon; 'postbackd backup create FILE' makes one immediately";
  return [
    newest === null ? warning("backups", "none has been made yet", remedy) : aged(newest, now),
  ];
}

function aged({ file, createdAt }: ScheduledCopy, now: number): Finding {
  const detail = `the newest, ${file}, is of ${timeText(createdAt)}`;
  if (now - createdAt <= BACKUP_AGE_MS_MAX) return sound("backups", detail);
  return warning(
    "backups",
    detail,
    "look whether backup.schedule is right, and at the daemon's log",
  );
}

const ASK_MS = 5000;

async function checkDaemon(config: Config, clock: Clock): Promise<Finding> {
  const question = { url: null, timeoutMs: ASK_MS, isPatient: false };
  const health = await askHealth({ ...question, config, clock });
  if (health.kind === "ready") return sound("daemon", `it accepts tasks at ${health.url}`);
  const [detail = ""] = health.reason.split("; ");
  // A start would create an empty database.
  const start = lostHolder(config) === null ? "start it, or " : "";
  return warning("daemon", detail, `${start}read its log: journalctl -u postbackd`);
}

function checkTls(config: Config, clock: Clock): readonly Finding[] {
  if (config.tls === null) return [];
  const { problems, material } = checkCertificate(config);
  if (material === null) {
    const remedy = "write a new certificate to its file, and send SIGHUP";
    return problems.map(({ message }) => failure("certificate", message, remedy));
  }
  const facts = { now: clock.now(), certificate: validityOf(material) };
  return conditionsOf("certificate", facts, `${config.tls.cert} is valid`);
}

function checkTrust(config: Config): readonly Finding[] {
  return checkAuthorities(config).map(({ message }) =>
    failure("authorities", message, "correct the file"),
  );
}

async function checkCommands({ config, env }: Patient): Promise<readonly Finding[]> {
  const missing = await missingPrograms(config, env);
  if (missing.length > 0) {
    return missing.map((text) =>
      failure("commands", text, "install the program, or name its path; PATH may differ in a unit"),
    );
  }
  const types = [...config.types.values()].filter(({ kind }) => kind === "command");
  return types.length === 0
    ? []
    : [sound("commands", `found the program of each command type (${types.length})`)];
}

/** The daemon that holds the database's lock, if it lives. */
function limitedProcess(config: Config): LimitedProcess {
  const own = { pid: process.pid, isDaemon: false };
  const holder = databaseOf(config).holder();
  if (holder === null) return own;
  try {
    process.kill(holder.pid, 0);
    return { pid: holder.pid, isDaemon: true };
  } catch {
    // It has ended, or is another user's.
    return own;
  }
}

/** Files that exist if a service synchronizes the clock. */
const SYNCHRONIZED = ["/run/systemd/timesync/synchronized", "/run/chrony/chronyd.pid"];

export function checkClock(now: number): Finding {
  // Nothing is made after now.
  const made = statSync(process.execPath).mtimeMs;
  if (now < made) {
    return failure(
      "clock",
      `the clock says ${new Date(now).toISOString()}, which is before this program was made`,
      "set the clock, and let NTP keep it: retries, retention and signatures go by it",
    );
  }
  return SYNCHRONIZED.some((file) => existsSync(file))
    ? sound("clock", "it is kept right by NTP")
    : sound("clock", "it is plausible; nothing on this machine shows whether NTP keeps it correct");
}

/** The process whose limits count: the daemon's, or where none runs this one, which was started in the same way at best. */
export interface LimitedProcess {
  readonly pid: number;
  readonly isDaemon: boolean;
  /** The folder that holds /proc and /sys; the machine's own root unless given. */
  readonly root?: string;
}

export function checkLimits(
  config: Pick<Config, "limits" | "webhooks">,
  { pid, isDaemon, root = "/" }: LimitedProcess,
): Finding[] {
  const limits = readText(join(root, `proc/${pid}/limits`));
  if (limits === null) return [skipped("limits", `/proc/${pid}/limits cannot be read`)];
  const whose = isDaemon ? `the daemon (process ${pid})` : "a process started from here";
  return [checkOpenFiles(config, { limits, whose }), ...checkFileSize(limits, whose)].concat(
    checkControlGroup(pid, { root, whose }),
  );
}

function checkOpenFiles(
  config: Pick<Config, "limits" | "webhooks">,
  { limits, whose }: { readonly limits: string; readonly whose: string },
): Finding {
  // Node raises the soft limit to the hard one.
  const most = limitOf(limits, "Max open files");
  const wanted = filesWanted(config);
  if (most === null || most >= wanted) {
    return sound("open files", `${whose} may open ${most ?? "any number of"} files`);
  }
  return warning(
    "open files",
    `${whose} may open ${most} files; limits.connections and webhooks.max_in_flight together need ${wanted}`,
    `set LimitNOFILE=${wanted} in the unit, or ulimit -n, or lower limits.connections`,
  );
}

function checkFileSize(limits: string, whose: string): Finding[] {
  const most = limitOf(limits, "Max file size");
  if (most === null) return [];
  return [
    warning(
      "file size",
      `${whose} may write files of ${most} bytes at most: then tasks are refused (50700)`,
      "take LimitFSIZE out of the unit, or ulimit -f out of the script",
    ),
  ];
}

// The daemon has 220 MB resident with a million tasks.
const MEMORY_BYTES_MIN = 256 * 1024 ** 2;
const PROCESSES_MIN = 64;

function checkControlGroup(
  pid: number,
  { root, whose }: { readonly root: string; readonly whose: string },
): Finding[] {
  // Only version 2 of control groups has one line, `0::/PATH`.
  const path = /^0::(\/.*)$/mu.exec(readText(join(root, `proc/${pid}/cgroup`)) ?? "")?.[1];
  if (path === undefined) return [];
  const valueOf = (name: string): number => {
    return Number.parseInt(readText(join(root, "sys/fs/cgroup", path, name)) ?? "", 10);
  };
  const [memory, processes] = [valueOf("memory.max"), valueOf("pids.max")];
  const isShort = memory < MEMORY_BYTES_MIN || processes < PROCESSES_MIN;
  if (!isShort) return [];
  return [
    warning(
      "control group",
      `${whose} has ${memory} bytes of memory and ${processes} processes at most`,
      "raise MemoryMax to 256M and TasksMax to 64 at least, or the limits of the container; commands count too",
    ),
  ];
}

/** A hard limit of /proc/PID/limits; null for none. */
function limitOf(limits: string, name: string): number | null {
  const line = limits.split("\n").find((each) => each.startsWith(name)) ?? "";
  const [, hard = "unlimited"] = line.slice(name.length).trim().split(/\s+/u);
  return hard === "unlimited" ? null : Number(hard);
}

function readText(file: string): string | null {
  try {
    return readFileSync(file, "utf8");
  } catch {
    // Not on Linux, or another user's: the caller says that it was not looked at.
    return null;
  }
}
