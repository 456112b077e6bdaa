import type { AnswerOf } from "../../api/operations.ts";
import type { AccessRequest } from "../../api/operator.ts";
import { Button } from "../part/control.tsx";
import { ask } from "../part/dialog.tsx";
import { Badge, Time } from "../part/figure.tsx";
import { List } from "../part/list.tsx";
import { Empty, Fold, None, Screen } from "../part/panel.tsx";
import { type Column, Table } from "../part/table.tsx";
import { call } from "../shell/api.ts";
import { countText } from "../shell/format.ts";
import { useRead } from "../shell/resource.ts";
import { LOGIN_FIELD, showNewAccount } from "./new-account.tsx";

const OPERATION = "GET /v1/operator/access_requests";
const TIMING = { everyMs: 0, pollMs: 15_000 };

/** The people who ask for an account, for the operator to decide. */
export function AccessRequestsScreen() {
  const pending = useRead(OPERATION, { query: { which: "pending" } }, TIMING);
  const all = useRead(OPERATION, { query: { which: "all" } }, TIMING);
  function reload(): void {
    pending.reload();
    all.reload();
  }
  return (
    <Screen
      title="Access requests"
      resource={pending}
      below={<Decided requests={all.data?.requests ?? []} />}
    >
      {(page) => <Pending page={page} reload={reload} />}
    </Screen>
  );
}

interface PendingProps {
  readonly page: AnswerOf<typeof OPERATION>;
  readonly reload: () => void;
}

function Pending({ page: { requests, more }, reload }: PendingProps) {
  const title = `${countText(requests.length)}${more ? "+" : ""} waiting`;
  return (
    <List
      label="Waiting requests"
      columns={[...COLUMNS, decisions(reload)]}
      rows={requests}
      keyOf={({ id }) => id}
      head={<p class="pad rule-below hint">{title}, oldest first</p>}
      empty={
        <Empty title="No request waits for a decision.">
          <p>
            People ask by <code>POST /v1/access_requests</code>; what they write appears here. To
            make an account without one, go to Accounts.
          </p>
        </Empty>
      }
    />
  );
}

function Decided({ requests }: { readonly requests: readonly AccessRequest[] }) {
  const decided = requests.filter(({ decision }) => decision !== null).toReversed();
  if (decided.length === 0) return null;
  return (
    <section class="panel" aria-label="Decided requests">
      <Fold title={`${countText(decided.length)} decided`}>
        <Table label="Decided requests" columns={DECIDED} rows={decided} keyOf={({ id }) => id} />
      </Fold>
    </section>
  );
}

const COLUMNS: readonly Column<AccessRequest>[] = [
  {
    name: "From",
    wraps: true,
    cell: ({ email, name, company }) => (
      <>
        <b>
          <bdi>{email}</bdi>
        </b>{" "}
        <span class="none">
          <bdi>{name}</bdi>
          {name !== null && company !== null && ", "}
          <bdi>{company}</bdi>
        </span>
      </>
    ),
  },
  {
    name: "Message",
    wraps: true,
    cell: ({ message }) =>
      message === null ? (
        <None />
      ) : (
        <p class="message" dir="auto">
          {message}
        </p>
      ),
  },
  { name: "Asked", cell: (request) => <Time at={request.created_at} /> },
];

const DECIDED: readonly Column<AccessRequest>[] = [
  ...COLUMNS,
  {
    name: "Decision",
    cell: ({ decision, decided_at: at }) => (
      <>
        <Badge state={decision ?? ""} /> <Time at={at} />
      </>
    ),
  },
];

function decisions(reload: () => void): Column<AccessRequest> {
  return {
    name: "",
    cell: (request) => (
      <>
        <Button label={`Deny ${request.email}`} press={() => askDenial(request, reload)}>
          Deny…
        </Button>
        <Button
          look="primary"
          label={`Approve ${request.email}`}
          press={() => askApproval(request, reload)}
        >
          Approve…
        </Button>
      </>
    ),
  };
}

/** Asks for the login of the requested account, and makes the account. */
function askApproval({ id, email }: AccessRequest, reload: () => void): void {
  ask<"login">({
    title: "Make the account",
    verb: "Approve",
    otherwise: "Let it wait",
    text: (
      <p class="wraps">
        For <bdi>{email}</bdi>. You get the first key and the webhook secret. Nothing is sent, so
        hand them over yourself.
      </p>
    ),
    fields: [LOGIN_FIELD],
    first: { login: suggestedLogin(email) },
    async work({ login }) {
      const params = { request_id: id };
      const operation = "POST /v1/operator/access_requests/approve/:request_id";
      showNewAccount(await call(operation, { params, body: { login } }));
      reload();
      return false;
    },
  });
}

const LOGIN_LENGTH_MAX = 64;

/**
 * The text before the @, without a +tag and without characters that a login cannot have: `Ann.Lee+x@y.org` is
 * `ann.lee`.
 */
function suggestedLogin(email: string): string {
  const [local = ""] = email.toLowerCase().split(/[@+]/);
  return local.replaceAll(/[^a-z0-9._-]/g, "").slice(0, LOGIN_LENGTH_MAX);
}

function askDenial({ id, email }: AccessRequest, reload: () => void): void {
  ask({
    title: "Deny this request?",
    verb: "Deny it",
    otherwise: "Let it wait",
    isDanger: true,
    text: (
      <p class="wraps">
        No account is made for <bdi>{email}</bdi>. Nothing is sent, so tell them yourself.
      </p>
    ),
    work: () =>
      call("POST /v1/operator/access_requests/deny/:request_id", { params: { request_id: id } }),
    announcement: "The access request is denied.",
    done: reload,
  });
}
