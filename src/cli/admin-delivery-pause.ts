import { LOGIN } from "../domain/account/login.ts";
import { HOST } from "../domain/address/host-name.ts";
import { systemClock } from "../domain/clock/clock.ts";
import { timeText } from "../domain/clock/time.ts";
import { PAUSE_REASON, PAUSES_MAX, scopeText } from "../domain/webhook/delivery-pause.ts";
import type { DeliveryPause, PauseScope, Store } from "../store/store.ts";
import { accountNamed, defineAdminCommand } from "./admin-command.ts";
import { flag } from "./arguments.ts";
import { CommandFailure } from "./failure.ts";
import { printable, tableLines, type Columns } from "./print.ts";
import { byCommand, commandUser } from "./user.ts";

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
  async run({ host, account: login, reason }, { store }) {
    const scope = await scopeOf({ host, login }, store);
    const pause = { ...scope, since: systemClock.now(), reason, pausedBy: commandUser() };
    const outcome = await store.pauseDeliveries({
      ...pause,
      audit: byCommand("delivery.paused", login, { host, reason }),
    });
    const what = scopeText({ login, host });
    if (outcome === "too many") {
      throw new CommandFailure(
        `there are ${PAUSES_MAX} pauses: resume some first, or pause a wider scope`,
      );
    }
    const waiting = await store.countScheduled(scope);
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
  async run({ host, account: login }, { store }) {
    const scope = await scopeOf({ host, login }, store);
    const what = scopeText({ login, host });
    const audit = byCommand("delivery.resumed", login, { host });
    if (!(await store.resumeDeliveries({ ...scope, audit }))) {
      throw new CommandFailure(`no pause is of exactly ${what}; '${NAME} paused' lists all`);
    }
    const left = await store.listDeliveryPauses();
    const waiting = await store.countScheduled(scope);
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
  async run(_given, { store }) {
    const pauses: ListedPause[] = [];
    for (const pause of await store.listDeliveryPauses()) {
      pauses.push({ ...pause, waiting: await store.countScheduled(pause) });
    }
    return {
      document: {
        pauses: pauses.map((pause) => ({ ...pauseDocument(pause), waiting: pause.waiting })),
      },
      lines: pauses.length === 0 ? ["Nothing is paused."] : tableLines(pauses, COLUMNS),
    };
  },
});

interface ListedPause extends DeliveryPause {
  /** Scheduled attempts that it covers. */
  readonly waiting: number;
}

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

/** A pause as JSON shows it. */
export function pauseDocument({ login, host, since, reason, pausedBy }: DeliveryPause) {
  return { login, host, since: timeText(since), reason, paused_by: pausedBy };
}

const COLUMNS: Columns<ListedPause> = {
  SINCE: ({ since }) => timeText(since),
  HOST: ({ host }) => host ?? "all",
  ACCOUNT: ({ login }) => login ?? "all",
  WAITING: ({ waiting }) => waiting,
  BY: ({ pausedBy }) => pausedBy,
  REASON: ({ reason }) => reason && printable(reason),
};
