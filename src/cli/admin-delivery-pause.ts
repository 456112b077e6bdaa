import { listPauses, pauseDeliveries, resumeDeliveries } from "../admin/delivery-pause.ts";
import type { DeliveryPause as PauseShown } from "../api/delivery-pause.ts";
import { LOGIN } from "../domain/account/login.ts";
import { HOST } from "../domain/address/host-name.ts";
import { PAUSE_REASON, PAUSES_MAX, scopeText } from "../domain/webhook/delivery-pause.ts";
import type { PauseScope, Store } from "../store/store.ts";
import { accountNamed, defineAdminCommand } from "./admin-command.ts";
import { flag } from "./arguments.ts";
import { CommandFailure } from "./failure.ts";
import { tableLines, type Columns } from "./print.ts";
import { commandUser } from "./user.ts";

const NAME = "postbackd admin delivery";

const SCOPE_ARGS = {
  host: flag(HOST, "Only webhooks to this host"),
  account: flag(LOGIN, "Only webhooks of this account"),
};

export const pauseCommand = defineAdminCommand({
  description: "Pause webhooks: nothing is sent until they are resumed, and nothing is lost",
  example: `${NAME} pause --host hooks.example.com --reason maintenance`,
  notes:
    "Without --host and --account all webhooks are paused. A running daemon starts no attempt after two\n" +
    "seconds; attempts in flight end. A pause lasts through restarts and uses up no retries: due retries run after\n" +
    "'resume'.",
  args: { ...SCOPE_ARGS, reason: flag(PAUSE_REASON, "Reason, for other operators") },
  async run({ host, account: login, reason }, parts) {
    const paused = { login, scope: await scopeOf({ host, login }, parts.store) };
    const by = { reason, pausedBy: commandUser() };
    const { outcome, waiting } = await pauseDeliveries(paused, by, parts);
    const what = scopeText({ login, host });
    if (outcome === "too many") {
      const remedy = "resume some first, or pause a wider scope";
      throw new CommandFailure(`there are ${PAUSES_MAX} pauses: ${remedy}`);
    }
    const isNew = outcome === "paused";
    return {
      document: { login, host, paused: isNew, waiting },
      lines: [
        isNew ? `Paused: ${what}.` : `Paused already: ${what}.`,
        `${waitingText(waiting)} now.`,
        `'${NAME} resume${flagsOf({ login, host })}' sends them.`,
      ],
    };
  },
});

export const resumeCommand = defineAdminCommand({
  description: "End a pause: what waits is sent",
  example: `${NAME} resume --host hooks.example.com`,
  notes: "It ends the pause with the same --host and --account; others stay.",
  args: SCOPE_ARGS,
  async run({ host, account: login }, parts) {
    const what = scopeText({ login, host });
    const scope = await scopeOf({ host, login }, parts.store);
    const resumed = await resumeDeliveries({ login, scope }, parts);
    if (resumed === null) {
      throw new CommandFailure(`no pause is of exactly ${what}; '${NAME} paused' lists all`);
    }
    const { left, waiting } = resumed;
    const others = left.length === 0 ? [] : [`Still paused: ${left.map(scopeText).join(", ")}.`];
    return {
      document: { login, host, resumed: true, waiting, pauses_left: left.length },
      lines: [`Resumed: ${what}. ${waitingText(waiting)} to be sent.`, ...others],
    };
  },
});

export const pausedCommand = defineAdminCommand({
  description: "List what is paused, since when and why, and how much waits",
  example: `${NAME} paused --json`,
  args: {},
  async run(_given, parts) {
    const pauses = await listPauses(parts, Infinity);
    return {
      document: { pauses },
      lines: pauses.length === 0 ? ["Nothing is paused."] : tableLines(pauses, COLUMNS),
    };
  },
});

interface NamedScope {
  readonly login: string | null;
  readonly host: string | null;
}

async function scopeOf({ login, host }: NamedScope, store: Store): Promise<PauseScope> {
  const accountId = login === null ? null : (await accountNamed(login, store)).accountId;
  return { accountId, host };
}

function flagsOf({ login, host }: NamedScope): string {
  return `${host === null ? "" : ` --host ${host}`}${login === null ? "" : ` --account ${login}`}`;
}

function waitingText(count: number): string {
  return count === 1 ? "1 webhook waits" : `${count.toLocaleString("en")} webhooks wait`;
}

const COLUMNS: Columns<PauseShown> = {
  SINCE: ({ since }) => since,
  HOST: ({ host }) => host ?? "all",
  ACCOUNT: ({ login }) => login ?? "all",
  WAITING: ({ waiting }) => waiting,
  BY: ({ paused_by: by }) => by,
  REASON: ({ reason }) => reason,
};
