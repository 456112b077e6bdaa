import { useState } from "preact/hooks";

import type { AnswerOf } from "../../api/operations.ts";
import type { AccessRequest, NewAccount } from "../../api/operator.ts";
import { Button } from "../part/control.tsx";
import { ActionDialog, FormDialog } from "../part/dialog.tsx";
import { Badge, Time } from "../part/figure.tsx";
import { Empty, Loaded, Panel, ScreenHead } from "../part/panel.tsx";
import { call } from "../shell/api.ts";
import { countText } from "../shell/format.ts";
import { useResource } from "../shell/resource.ts";
import { LoginField, NewAccountShown } from "./new-account.tsx";

type Requests = AnswerOf<"GET /v1/operator/access_requests">;

interface Asked {
  readonly what: "approve" | "deny";
  readonly request: AccessRequest;
}

const POLL_MS = 15_000;

/** The people who ask for an account, for the operator to decide. */
export function AccessRequestsScreen() {
  const [asked, setAsked] = useState<Asked | null>(null);
  const [made, setMade] = useState<NewAccount | null>(null);
  const pending = useRequests("pending");
  const all = useRequests("all");
  function decided(): void {
    setAsked(null);
    pending.reload();
    all.reload();
  }
  return (
    <>
      <ScreenHead title="Access requests" />
      <div class="stack">
        <Loaded resource={pending}>{(page) => <Pending page={page} ask={setAsked} />}</Loaded>
        <Decided requests={all.data?.requests ?? []} />
      </div>
      {asked?.what === "approve" && (
        <AccessApproval
          request={asked.request}
          close={() => setAsked(null)}
          done={(account) => {
            decided();
            setMade(account);
          }}
        />
      )}
      {asked?.what === "deny" && (
        <AccessDenial request={asked.request} close={() => setAsked(null)} done={decided} />
      )}
      {made !== null && <NewAccountShown account={made} close={() => setMade(null)} />}
    </>
  );
}

function useRequests(which: "pending" | "all") {
  return useResource(
    which,
    (load) => call("GET /v1/operator/access_requests", { ...load, query: { which } }),
    { everyMs: 0, pollMs: POLL_MS },
  );
}

interface PendingProps {
  readonly page: Requests;
  readonly ask: (asked: Asked) => void;
}

function Pending({ page: { requests, more }, ask }: PendingProps) {
  if (requests.length === 0) {
    return (
      <div class="panel">
        <Empty title="No request waits for a decision.">
          <p>
            People ask by <code>POST /v1/access_requests</code>; what they write appears here. To
            make an account without one, go to Accounts.
          </p>
        </Empty>
      </div>
    );
  }
  return (
    <Panel title={`${countText(requests.length)}${more ? "+" : ""} waiting`} note="oldest first">
      <ul class="request-list">
        {requests.map((request) => (
          <Request key={request.id} request={request} ask={ask} />
        ))}
      </ul>
    </Panel>
  );
}

interface RequestProps {
  readonly request: AccessRequest;
  readonly ask: (asked: Asked) => void;
}

function Request({ request, ask }: RequestProps) {
  const { email, message } = request;
  return (
    <li class="request">
      <div class="request-text">
        <p>
          <Sender request={request} /> <Time at={request.created_at} />
        </p>
        {message !== null && (
          <p class="request-message" dir="auto">
            {message}
          </p>
        )}
      </div>
      <div class="row">
        <Button label={`Deny ${email}`} press={() => ask({ what: "deny", request })}>
          Deny…
        </Button>
        <Button
          look="primary"
          label={`Approve ${email}`}
          press={() => ask({ what: "approve", request })}
        >
          Approve…
        </Button>
      </div>
    </li>
  );
}

function Sender({ request }: { readonly request: AccessRequest }) {
  const { email, name, company } = request;
  const others = [name, company].filter((part) => part !== null);
  return (
    <>
      <b>
        <bdi>{email}</bdi>
      </b>{" "}
      {others.map((part, i) => (
        <span key={i === 0 ? "first" : "second"} class="request-who">
          <bdi>{part}</bdi>
        </span>
      ))}
    </>
  );
}

function Decided({ requests }: { readonly requests: readonly AccessRequest[] }) {
  const decided = requests.filter(({ decision }) => decision !== null).toReversed();
  if (decided.length === 0) return null;
  return (
    <details class="panel fold">
      <summary>{countText(decided.length)} decided</summary>
      <ul class="request-list">
        {decided.map((request) => (
          <li key={request.id} class="request">
            <p class="request-text">
              <Sender request={request} />
            </p>
            <p class="row">
              <Badge state={request.decision ?? ""} /> <Time at={request.decided_at} />
            </p>
          </li>
        ))}
      </ul>
    </details>
  );
}

interface AccessApprovalProps {
  readonly request: AccessRequest;
  readonly close: () => void;
  readonly done: (account: NewAccount) => void;
}

/** Asks for the login of the requested account, and makes the account. */
export function AccessApproval({ request, close, done }: AccessApprovalProps) {
  const [login, setLogin] = useState(() => suggestedLogin(request.email));
  async function approve(): Promise<void> {
    const params = { request_id: request.id };
    const operation = "POST /v1/operator/access_requests/approve/:request_id";
    done(await call(operation, { params, body: { login } }));
  }
  return (
    <FormDialog
      title="Make the account"
      verb="Approve"
      otherwise="Let it wait"
      work={approve}
      close={close}
    >
      <p class="wraps">
        For <bdi>{request.email}</bdi>. You get the first key and the webhook secret. Nothing is
        sent, so hand them over yourself.
      </p>
      <LoginField login={login} change={setLogin} />
    </FormDialog>
  );
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

interface AccessDenialProps {
  readonly request: AccessRequest;
  readonly close: () => void;
  readonly done: () => void;
}

/** Asks before an access request is denied. */
export function AccessDenial({ request: { id, email }, close, done }: AccessDenialProps) {
  return (
    <ActionDialog
      title="Deny this request?"
      verb="Deny it"
      otherwise="Let it wait"
      isDanger
      announcement="The access request is denied."
      work={() =>
        call("POST /v1/operator/access_requests/deny/:request_id", { params: { request_id: id } })
      }
      close={close}
      done={done}
    >
      <p class="wraps">
        No account is made for <bdi>{email}</bdi>. Nothing is sent, so tell them yourself.
      </p>
    </ActionDialog>
  );
}
