import { existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";

import { serviceUnit } from "../assets.ts";
import { SERVICE_CONFIG_FILE } from "../config/service-file.ts";
import { messageOf } from "../domain/error.ts";
import type { CommandLine } from "../domain/task/run.ts";
import { runToExit } from "../run/program-run.ts";

const USER = "postbackd";
const UNIT = "/etc/systemd/system/postbackd.service";
const DATA_FOLDER = "/var/lib/postbackd";
const CONFIG_TEXT = `# 'postbackd config init' writes a file with every setting and its default.
database = "${DATA_FOLDER}/postbackd.db"
`;

/** Where the unit in the template has it. */
const EXECUTABLE = "/usr/local/bin/postbackd";

/** Folders that the unit hides from the service: ProtectHome, PrivateTmp. */
const HIDDEN = ["/home", "/root", "/run/user", "/tmp", "/var/tmp"];

/** One step of making the daemon a service of this machine, or of undoing that. */
export type ServiceStep = RunStep | WriteStep | RemoveStep;

interface RunStep {
  readonly kind: "run";
  readonly says: string;
  readonly command: CommandLine;
  /** A program that ends with 0 where the step is not needed. */
  readonly unless?: CommandLine;
}

interface WriteStep {
  readonly kind: "write";
  readonly says: string;
  readonly path: string;
  readonly text: string;
  /** True for a file that is left as it is where there is one. */
  readonly isKept: boolean;
}

interface RemoveStep {
  readonly kind: "remove";
  readonly says: string;
  readonly path: string;
}

/** A step could not be done; the message names it. */
export class ServiceError extends Error {
  override readonly name = "ServiceError" as const;
}

/** The steps that make the executable at this place a service. All of them may be done again. */
export function installSteps(executable: string): readonly ServiceStep[] {
  const isHidden = HIDDEN.some((folder) => executable.startsWith(`${folder}/`));
  const place = isHidden ? EXECUTABLE : executable;
  return [
    ...(isHidden ? [copyStep(executable)] : []),
    {
      kind: "run",
      says: `make the system user ${USER}`,
      command: [
        "useradd",
        ...["--system", "--user-group", "--no-create-home", "--home-dir", DATA_FOLDER],
        ...["--shell", "/usr/sbin/nologin", USER],
      ],
      unless: ["getent", "passwd", USER],
    },
    {
      kind: "run",
      says: `make the folder of the database, ${DATA_FOLDER}`,
      command: ["install", "-d", "-m", "0700", "-o", USER, "-g", USER, DATA_FOLDER],
    },
    {
      kind: "write",
      says: `write the configuration ${SERVICE_CONFIG_FILE}`,
      path: SERVICE_CONFIG_FILE,
      text: CONFIG_TEXT,
      isKept: true,
    },
    {
      kind: "run",
      says: "let the service alone read it, as it may hold secrets",
      command: ["chown", `root:${USER}`, SERVICE_CONFIG_FILE],
    },
    {
      kind: "run",
      says: "and nobody else",
      command: ["chmod", "0640", SERVICE_CONFIG_FILE],
    },
    {
      kind: "write",
      says: `write the unit ${UNIT}`,
      path: UNIT,
      text: unitText(place),
      isKept: false,
    },
    { kind: "run", says: "have systemd read it", command: ["systemctl", "daemon-reload"] },
    {
      kind: "run",
      says: "have systemd start it at every boot",
      command: ["systemctl", "enable", "postbackd"],
    },
  ];
}

function copyStep(executable: string): ServiceStep {
  return {
    kind: "run",
    says: `copy the executable to where the unit lets it be seen, ${EXECUTABLE}`,
    command: ["install", "-m", "0755", executable, EXECUTABLE],
  };
}

/** The steps that take the service away. User, configuration and data stay. */
export function uninstallSteps(): readonly ServiceStep[] {
  return [
    {
      kind: "run",
      says: "stop the service, and start it no more",
      command: ["systemctl", "disable", "--now", "postbackd"],
    },
    { kind: "remove", says: `remove the unit ${UNIT}`, path: UNIT },
    { kind: "run", says: "have systemd forget it", command: ["systemctl", "daemon-reload"] },
  ];
}

/** Does a step; false where there was nothing to do. Rejects with a {@link ServiceError}. */
export async function doStep(step: ServiceStep): Promise<boolean> {
  if (step.kind === "run") return run(step);
  try {
    if (step.kind === "remove") rmSync(step.path);
    else if (step.isKept && existsSync(step.path)) return false;
    else write(step);
    return true;
  } catch (error) {
    throw new ServiceError(`could not ${step.says}: ${messageOf(error)}`, { cause: error });
  }
}

function write({ path, text }: WriteStep): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text);
}

async function run({ says, command, unless }: RunStep): Promise<boolean> {
  if (unless !== undefined) {
    const found = await runToExit(unless, process.env);
    if (found.kind === "exited" && found.code === 0) return false;
  }
  const end = await runToExit(command, process.env, "shown");
  if (end.kind === "exited" && end.code === 0) return true;
  const how = end.kind === "exited" ? `ended with ${end.code}` : `cannot be run (${end.errorCode})`;
  throw new ServiceError(`could not ${says}: '${command.join(" ")}' ${how}`);
}

/** The unit, for the executable at this place. Throws a {@link ServiceError} if no unit can name the place. To systemd `%` and `$` mean something, and a space ends a word. */
export function unitText(executable: string): string {
  if (UNQUOTABLE.test(executable)) {
    const place = JSON.stringify(executable);
    throw new ServiceError(
      `${place} has a quote, a backslash or a control character in its path, which no unit can name: move the executable`,
    );
  }
  const word = executable.replaceAll(/[%$]/g, (sign) => sign + sign);
  return serviceUnit.replaceAll(EXECUTABLE, () => (/\s/.test(word) ? `"${word}"` : word));
}

const UNQUOTABLE = /[\u0000-\u001f\u007f"'\\]/;
