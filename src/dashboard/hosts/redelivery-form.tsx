import type { WrittenFilter } from "../../api/search.ts";
import { DAY_MS, HOUR_MS, MINUTE_MS } from "../../domain/clock/duration.ts";
import type { DeliveryKind } from "../../domain/webhook/delivery.ts";
import { Button } from "../part/control.tsx";
import { isOperator } from "../shell/session.ts";

/** The values of the form. */
export interface RedeliveryChoice {
  /** In the form of a `datetime-local` field, in the reader's own zone. */
  readonly since: string;
  readonly host: string;
  readonly kind: DeliveryKind | "";
  readonly states: readonly RedeliveredState[];
  readonly perSecond: number;
}

type RedeliveredState = "given_up" | "refused";

const PRESETS = [
  { text: "1 h", ms: HOUR_MS },
  { text: "24 h", ms: DAY_MS },
  { text: "7 d", ms: 7 * DAY_MS },
];

const RATE_STANDARD = 10;

/** The first choice: everything that failed at a host in the last day. */
export function newChoice(host: string, now: number): RedeliveryChoice {
  const since = localText(now - DAY_MS);
  return { since, host, kind: "", states: ["given_up", "refused"], perSecond: RATE_STANDARD };
}

/** The choice in the API's form; null while it is incomplete. */
export function filterOf({ since, host, kind, states }: RedeliveryChoice): WrittenFilter | null {
  const at = new Date(since);
  if (Number.isNaN(at.getTime()) || states.length === 0) return null;
  return {
    since: at.toISOString(),
    states,
    host: host.trim() || undefined,
    kind: kind || undefined,
  };
}

// The field has no zone: it uses the reader's.
function localText(at: number): string {
  const offsetMs = new Date(at).getTimezoneOffset() * MINUTE_MS;
  return new Date(at - offsetMs).toISOString().slice(0, 16);
}

interface RedeliveryFormProps {
  readonly choice: RedeliveryChoice;
  readonly change: (choice: RedeliveryChoice) => void;
  readonly submit: () => void;
}

/** The fields of a redelivery order. */
export function RedeliveryForm({ choice, change, submit }: RedeliveryFormProps) {
  const rateMax = isOperator.value ? 1000 : 50;
  return (
    <form
      id="redelivery"
      class="redelivery-form"
      onSubmit={(event) => {
        event.preventDefault();
        submit();
      }}
    >
      <Since choice={choice} change={change} />
      <label class="field">
        Host
        <input
          value={choice.host}
          placeholder="every host"
          spellcheck={false}
          onInput={({ currentTarget }) => change({ ...choice, host: currentTarget.value })}
        />
      </label>
      <Kind choice={choice} change={change} />
      <fieldset class="field">
        <legend>Their state</legend>
        <div class="row">
          <State state="given_up" text="given up" choice={choice} change={change} />
          <State state="refused" text="refused" choice={choice} change={change} />
        </div>
      </fieldset>
      <label class="field">
        Per second, at most
        <input
          type="number"
          required
          min={1}
          max={rateMax}
          value={choice.perSecond}
          onInput={({ currentTarget }) => {
            const { valueAsNumber: rate } = currentTarget;
            if (rate >= 1 && rate <= rateMax) change({ ...choice, perSecond: Math.floor(rate) });
          }}
        />
      </label>
    </form>
  );
}

type FieldProps = Pick<RedeliveryFormProps, "choice" | "change">;

function Since({ choice, change }: FieldProps) {
  return (
    <div class="field redelivery-since">
      <label for="redelivery-since">Failed since</label>
      <div class="row">
        <input
          id="redelivery-since"
          type="datetime-local"
          required
          max={localText(Date.now())}
          value={choice.since}
          onInput={({ currentTarget }) => change({ ...choice, since: currentTarget.value })}
        />
        {PRESETS.map(({ text, ms }) => (
          <Button
            key={text}
            label={`The last ${text}`}
            press={() => change({ ...choice, since: localText(Date.now() - ms) })}
          >
            {text}
          </Button>
        ))}
      </div>
    </div>
  );
}

const KINDS: readonly (readonly [RedeliveryChoice["kind"], string])[] = [
  ["", "postbacks and pingbacks"],
  ["postback", "postbacks"],
  ["pingback", "pingbacks"],
];

function Kind({ choice, change }: FieldProps) {
  return (
    <label class="field">
      Kind
      <select
        value={choice.kind}
        onChange={({ currentTarget }) => {
          const kind = KINDS.find(([value]) => value === currentTarget.value)?.[0] ?? "";
          change({ ...choice, kind });
        }}
      >
        {KINDS.map(([value, text]) => (
          <option key={value} value={value}>
            {text}
          </option>
        ))}
      </select>
    </label>
  );
}

interface StateProps extends FieldProps {
  readonly state: RedeliveredState;
  readonly text: string;
}

function State({ state, text, choice, change }: StateProps) {
  const others = choice.states.filter((each) => each !== state);
  return (
    <label class="check">
      <input
        type="checkbox"
        checked={choice.states.includes(state)}
        onChange={({ currentTarget }) =>
          change({ ...choice, states: currentTarget.checked ? [...others, state] : others })
        }
      />
      {text}
    </label>
  );
}
