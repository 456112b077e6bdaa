import { aliveDuring, systemClock } from "../domain/clock/clock.ts";
import type { Finding, Verdict } from "../ops/doctor.ts";
import { defineCommand } from "./command.ts";
import { EXIT } from "./failure.ts";
import { JSON_ARG } from "./print.ts";
import { judgeCommandConfig, settingArgs } from "./settings.ts";
import { terminalLayout, wrapped } from "./terminal.ts";

export const doctorCommand = defineCommand({
  description: "Check configuration, database, machine and daemon, and show how to fix problems",
  example: "postbackd doctor",
  notes:
    "It takes the flags of 'start', and works beside a running daemon or without one. It changes nothing, and reads the\n" +
    "whole database, which takes seconds for a gigabyte. It exits with 0 when nothing has failed, warnings aside, and\n" +
    "with 1 when something has. Run it as the daemon's user, or as root. It examines this machine's service where\n" +
    "no configuration and no database is named, and none is in this folder.",
  args: { ...settingArgs(), ...JSON_ARG },
  async run(given) {
    const verdict = judgeCommandConfig(given);
    const isConfig = verdict.kind === "config";
    const { examine } = await import("../ops/doctor.ts");
    const findings = await aliveDuring(() =>
      examine({
        config: isConfig ? verdict.config : verdict.draft,
        problems: isConfig ? [] : verdict.problems,
        clock: systemClock,
        env: process.env,
      }),
    );
    const isSound = findings.every(({ verdict: each }) => each !== "failed");
    return {
      document: { ok: isSound, findings },
      lines: [...findings.flatMap(findingLines), "", summaryOf(findings)],
      exit: isSound ? EXIT.done : EXIT.failed,
    };
  },
});

const WORDS: Readonly<Record<Verdict, string>> = {
  ok: "ok",
  warning: "WARNING",
  failed: "FAILED",
  skipped: "skipped",
};

const VERDICT_WIDTH = 9;
const CHECK_WIDTH = 15;

function findingLines({ check, verdict, detail, remedy }: Finding): readonly string[] {
  const indent = VERDICT_WIDTH + CHECK_WIDTH;
  const head = WORDS[verdict].padEnd(VERDICT_WIDTH) + check.padEnd(CHECK_WIDTH);
  const text = [detail, ...(remedy === null ? [] : [`→ ${remedy}`])];
  return text
    .flatMap((part) => wrapped(part, terminalLayout().width - indent))
    .map((line, i) => (i === 0 ? head : " ".repeat(indent)) + line);
}

function summaryOf(findings: readonly Finding[]): string {
  const count = (verdict: Verdict): number =>
    findings.filter((finding) => finding.verdict === verdict).length;
  const [failed, warnings] = [count("failed"), count("warning")];
  if (failed + warnings === 0) return "Nothing to fix.";
  return `${failed} failed, ${warnings} ${warnings === 1 ? "warning" : "warnings"}.`;
}
