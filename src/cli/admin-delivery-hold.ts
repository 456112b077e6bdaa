import { LOGIN } from "../domain/account/login.ts";
import { HOST } from "../domain/address/host-name.ts";
import { systemClock } from "../domain/clock/clock.ts";
import { timeText } from "../domain/clock/time.ts";
import { HOLD_REASON, HOLDS_MAX, scopeText } from "../domain/webhook/delivery-hold.ts";
import type { DeliveryHold, HoldScope, Store } from "../store/store.ts";
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

export const holdCommand = defineAdminCommand({
  description: "Hold webhooks: nothing goes out, and what waits is kept, until it is released",
  example: `${NAME} hold --host hooks.example.com --reason maintenance`,
  notes:
    "Without --host and --account all webhooks are held. A running daemon begins none within two seconds; what is\n" +
    "under way goes to its end. A hold outlasts restarts, and no retry is lost by it: what became due meanwhile goes\n" +
    "out after the release.",
  args: { ...SCOPE_ARGS, reason: flag(HOLD_REASON, "Why, for whoever finds it") },
  async run({ host, account: login, reason }, { store }) {
    const scope = await scopeOf({ host, login }, store);
    const hold = { ...scope, since: systemClock.now(), reason, heldBy: commandUser() };
    const outcome = await store.holdDeliveries({
      ...hold,
      audit: byCommand("delivery.held", login, { host, reason }),
    });
    const what = scopeText({ login, host });
    if (outcome === "too many") {
      throw new CommandFailure(`there are ${HOLDS_MAX} holds: release some, or hold more at once`);
    }
    const waiting = await store.countScheduled(scope);
    const isNew = outcome === "held";
    return {
      document: { login, host, held: isNew, waiting },
      lines: [
        isNew ? `Held: ${what}.` : `Held already: ${what}.`,
        `${waitingText(waiting)} now.`,
        `'${NAME} release${flagsOf({ login, host })}' lets them go.`,
      ],
    };
  },
});

export const releaseCommand = defineAdminCommand({
  description: "End a hold: what waits goes out",
  example: `${NAME} release --host hooks.example.com`,
  notes: "It ends the hold that was made with the same --host and --account; others stay.",
  args: SCOPE_ARGS,
  async run({ host, account: login }, { store }) {
    const scope = await scopeOf({ host, login }, store);
    const what = scopeText({ login, host });
    const audit = byCommand("delivery.released", login, { host });
    if (!(await store.releaseDeliveries({ ...scope, audit }))) {
      throw new CommandFailure(`no hold is of exactly ${what}; '${NAME} holds' lists all`);
    }
    const left = await store.listDeliveryHolds();
    const waiting = await store.countScheduled(scope);
    const others = left.length === 0 ? [] : [`Still held: ${left.map(scopeText).join(", ")}.`];
    return {
      document: { login, host, released: true, waiting, holds_left: left.length },
      lines: [`Released: ${what}. ${waitingText(waiting)} to be sent.`, ...others],
    };
  },
});

export const holdsCommand = defineAdminCommand({
  description: "List what is held, since when and why, and how much waits",
  example: `${NAME} holds --json`,
  args: {},
  async run(_given, { store }) {
    const holds: ListedHold[] = [];
    for (const hold of await store.listDeliveryHolds()) {
      holds.push({ ...hold, waiting: await store.countScheduled(hold) });
    }
    return {
      document: { holds: holds.map((hold) => ({ ...holdDocument(hold), waiting: hold.waiting })) },
      lines: holds.length === 0 ? ["Nothing is held."] : tableLines(holds, COLUMNS),
    };
  },
});

interface ListedHold extends DeliveryHold {
  /** Scheduled attempts that it covers. */
  readonly waiting: number;
}

interface NamedScope {
  readonly login: string | null;
  readonly host: string | null;
}

async function scopeOf({ login, host }: NamedScope, store: Store): Promise<HoldScope> {
  const accountId = login === null ? null : (await accountNamed(login, store)).accountId;
  return { accountId, host };
}

function flagsOf({ login, host }: NamedScope): string {
  return `${host === null ? "" : ` --host ${host}`}${login === null ? "" : ` --account ${login}`}`;
}

function waitingText(count: number): string {
  return count === 1 ? "1 webhook waits" : `${count.toLocaleString("en")} webhooks wait`;
}

/** A hold as JSON shows it. */
export function holdDocument({ login, host, since, reason, heldBy }: DeliveryHold) {
  return { login, host, since: timeText(since), reason, held_by: heldBy };
}

const COLUMNS: Columns<ListedHold> = {
  SINCE: ({ since }) => timeText(since),
  HOST: ({ host }) => host ?? "all",
  ACCOUNT: ({ login }) => login ?? "all",
  WAITING: ({ waiting }) => waiting,
  BY: ({ heldBy }) => heldBy,
  REASON: ({ reason }) => reason && printable(reason),
};
