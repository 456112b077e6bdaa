import { executable } from "../assets.ts";
import type { ServiceStep } from "../ops/service.ts";
import { toggle, type Given } from "./arguments.ts";
import { defineCommand } from "./command.ts";
import { fail } from "./failure.ts";
import { confirm, YES_ARG } from "./terminal.ts";

const NAME = "postbackd service";

const NEXT = `
Put your settings into /etc/postbackd/postbackd.toml, make an account, and start it:
  postbackd admin account create LOGIN
  systemctl start postbackd
`;

const LEFT = `
The user postbackd, /etc/postbackd and /var/lib/postbackd are left as they are.
`;

const DRY_RUN = { "dry-run": toggle("Only print the steps") };

const install = defineCommand({
  description: "Install this executable as a systemd service: user, folders, unit",
  example: `${NAME} install`,
  notes:
    "Run it again after an update. It leaves an existing user and configuration as they are, and\n" +
    "starts nothing. Your own changes to the unit belong into a drop-in: systemctl edit postbackd",
  args: DRY_RUN,
  async run(given) {
    const { installSteps } = await import("../ops/service.ts");
    const isDry = given["dry-run"];
    if (executable === null && !isDry) {
      fail(
        "only the executable can be installed: use the executable of an archive, or build it with 'npm run build'",
      );
    }
    requireRoot(given);
    await doAll(() => installSteps(executable ?? "/usr/local/bin/postbackd"), given);
    if (!isDry) process.stdout.write(NEXT);
  },
});

const uninstall = defineCommand({
  description: "Stop the service and remove its unit; user, configuration and data stay",
  example: `${NAME} uninstall`,
  args: { ...DRY_RUN, ...YES_ARG },
  async run(given) {
    requireRoot(given);
    const { uninstallSteps } = await import("../ops/service.ts");
    const loss =
      "this stops the service: until you install it again, postbackd serves, runs and sends nothing.";
    if (!given["dry-run"]) await confirm(given, () => loss);
    await doAll(uninstallSteps, given);
    if (!given["dry-run"]) process.stdout.write(LEFT);
  },
});

export const serviceCommand = defineCommand({
  description: "Install postbackd as a systemd service, or remove it",
  example: `${NAME} install --dry-run`,
  subCommands: { install, uninstall },
});

function requireRoot({ "dry-run": isDry }: Given<typeof DRY_RUN>): void {
  if (isDry || process.geteuid?.() === 0) return;
  fail("only root may do this: use sudo, or print the steps with --dry-run");
}

/** Does one step after the other and says each, or only says them. */
async function doAll(
  steps: () => readonly ServiceStep[],
  { "dry-run": isDry }: Given<typeof DRY_RUN>,
): Promise<void> {
  // All users may read units and folders of the system; the steps name the exceptions.
  process.umask(0o022);
  const { doStep } = await import("../ops/service.ts");
  for (const step of steps()) {
    const isDone = isDry || (await doStep(step));
    process.stdout.write(isDone ? stepText(step, { isDry }) : `${step.says}: was so before\n`);
  }
}

function stepText(step: ServiceStep, { isDry }: { readonly isDry: boolean }): string {
  const { says } = step;
  if (!isDry) return `${says}: done\n`;
  if (step.kind === "run") return `# ${says}\n${step.command.join(" ")}\n\n`;
  if (step.kind === "remove") return `# ${says}\nrm ${step.path}\n\n`;
  return `# ${says}${step.isKept ? ", unless it is there" : ""}:\n${step.text}\n`;
}
