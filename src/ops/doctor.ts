import { problemText, type Config, type ConfigProblem } from "../config/config.ts";
import type { Clock } from "../domain/clock/clock.ts";
import { timeText } from "../domain/clock/time.ts";
import { messageOf } from "../domain/error.ts";
import { readServedFile } from "../store/sqlite/served-file.ts";
import { BackupFolder, type ScheduledCopy } from "./backup-folder.ts";
import { checkAuthorities, checkCertificate, missingPrograms, retentionWarning } from "./check.ts";
import { checkAddon, checkContent, checkDatabase, checkRoom } from "./database-checks.ts";
import { databaseOf } from "./database-of.ts";
import { failure, skipped, sound, warning, type Finding } from "./finding.ts";
import { askHealth } from "./health.ts";
import { checkClock, checkLimits, type LimitedProcess } from "./machine-checks.ts";
import { checkEvents, checkResolver, checkTargets } from "./webhook-checks.ts";

export type { Finding, Verdict } from "./finding.ts";

/** A configuration to examine, or the draft of a wrong one with its problems in words. */
export interface Patient {
  readonly config: Config;
  readonly problems: readonly ConfigProblem[];
  readonly clock: Clock;
  readonly env: Readonly<Record<string, string | undefined>>;
}

type Check = (patient: Patient) => Promise<readonly Finding[]> | readonly Finding[] | Finding;

const CHECKS: Readonly<Record<string, Check>> = {
  configuration: checkConfiguration,
  addon: ({ config }) => checkAddon(config),
  database: ({ config }) => checkDatabase(config),
  content: ({ config }) => checkContent(config),
  room: ({ config }) => checkRoom(config),
  backups: ({ config, clock }) => checkBackups(config, clock.now()),
  daemon: async ({ config, clock }) => [await checkDaemon(config, clock)],
  certificate: ({ config, clock }) => checkTls(config, clock),
  commands: checkCommands,
  authorities: ({ config }) =>
    checkAuthorities(config).map(({ message }) =>
      failure("authorities", message, "correct the file"),
    ),
  targets: ({ config }) => checkTargets(config),
  resolver: async ({ config, clock }) => [await checkResolver(config, clock)],
  events: ({ config, clock }) => checkEvents(config, clock),
  clock: ({ clock }) => checkClock(clock.now()),
  limits: ({ config }) => checkLimits(config, limitedProcess(config)),
};

/** By check: the checks whose failure would make its result misleading. */
const AFTER: Readonly<Record<string, readonly string[]>> = {
  content: ["addon"],
  backups: ["addon", "content"],
  daemon: ["addon"],
  limits: ["addon"],
};

/** The settings without which a check would examine something else. All of them need the file (`config`). */
const BY_SETTING: Readonly<Record<string, readonly string[]>> = {
  addon: ["database"],
  database: ["database"],
  content: ["database"],
  room: ["database"],
  backups: ["database", "backup.folder", "backup.schedule"],
  daemon: ["database"],
  limits: ["database"],
  targets: ["webhooks.allow"],
  resolver: ["webhooks.dns_servers"],
  events: ["webhooks.allow", "webhooks.dns_servers"],
};

/**
 * Examines everything that a daemon of this configuration needs, beside a running one or without one, and changes
 * nothing. Reads the whole database. A check that fails by itself is a finding, too; never rejects.
 */
export async function examine(patient: Patient): Promise<readonly Finding[]> {
  const findings: Finding[] = [];
  for (const [name, check] of Object.entries(CHECKS)) {
    const obstacle = obstacleOf(name, { findings, patient });
    if (obstacle !== null) {
      findings.push(skipped(name, `not checked, because ${obstacle} failed`));
      continue;
    }
    try {
      findings.push(...[await check(patient)].flat());
    } catch (error) {
      const detail = `it could not be looked at: ${messageOf(error)}`;
      findings.push(failure(name, detail, "mend that first, then ask again"));
    }
  }
  return findings;
}

/** The failed check without which this one would mislead; null if it can be done. */
function obstacleOf(
  name: string,
  { findings, patient }: { readonly findings: readonly Finding[]; readonly patient: Patient },
): string | null {
  const settings = ["config", ...(BY_SETTING[name] ?? [])];
  const isSettingWrong = patient.problems.some(({ key }) => settings.includes(key));
  if (isSettingWrong && name !== "configuration" && name !== "clock") return "configuration";
  const hasFailed = (check: string): boolean =>
    findings.some((each) => each.check === check && each.verdict === "failed");
  return AFTER[name]?.find(hasFailed) ?? null;
}

function checkConfiguration({ config, problems }: Patient): readonly Finding[] {
  if (problems.length > 0) {
    return problems.map((problem) =>
      failure(
        "configuration",
        problemText(problem),
        "fix it; 'postbackd config check' lists all problems",
      ),
    );
  }
  const retention = retentionWarning(config);
  if (retention !== null) {
    return [warning("configuration", retention.text, retention.remedy)];
  }
  return [sound("configuration", config.file === null ? "no file; all defaults" : config.file)];
}

// A weekly schedule is the rarest that somebody would still call one.
const BACKUP_AGE_MS_MAX = 8 * 86_400_000;

function checkBackups(config: Config, now: number): readonly Finding[] {
  if (config.server !== null) return [];
  const { installation } = readServedFile(config.database);
  const newest = installation === null ? null : new BackupFolder(config, installation).newest();
  if (config.backup.schedule === null) {
    const detail = "there is no backup.schedule: copies are somebody else's work";
    return [newest === null ? skipped("backups", detail) : aged(newest, now)];
  }
  const remedy = "see the log of the daemon; 'postbackd backup create FILE' makes one at once";
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
  return warning("daemon", detail, "start it, or read its log: journalctl -u postbackd");
}

const EXPIRES_SOON_MS = 14 * 86_400_000;

function checkTls(config: Config, clock: Clock): readonly Finding[] {
  if (config.tls === null) return [];
  const { problems, warnings } = checkCertificate(config, clock.now());
  const soon = checkCertificate(config, clock.now() + EXPIRES_SOON_MS).warnings;
  const renew = "put a new one into its file and send SIGHUP";
  if (problems.length > 0) {
    return problems.map(({ message }) => failure("certificate", message, renew));
  }
  if (warnings.length > 0) return warnings.map((text) => failure("certificate", text, renew));
  if (soon.length > 0) {
    return [warning("certificate", "it runs out within 14 days", renew)];
  }
  return [sound("certificate", `${config.tls.cert} is valid`)];
}

async function checkCommands({ config, env }: Patient): Promise<readonly Finding[]> {
  const missing = await missingPrograms(config, env);
  if (missing.length > 0) {
    return missing.map((text) =>
      failure("commands", text, "install the program, or name its path; PATH may differ in a unit"),
    );
  }
  const types = [...config.types.values()].filter(({ kind }) => kind === "command");
  return types.length === 0 ? [] : [sound("commands", `all ${types.length} are there`)];
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
