import { useRef } from "preact/hooks";

import { announce } from "../part/announcer.tsx";
import { Button } from "../part/control.tsx";
import { Dialog, FormDialog, openDialog, useClose } from "../part/dialog.tsx";
import { type Field, FieldError, type Values } from "../part/form.tsx";
import { Loaded } from "../part/panel.tsx";
import { ApiError, JsonText, call } from "../shell/api.ts";
import { useKeys } from "../shell/keyboard.ts";
import { type Load, useResource } from "../shell/resource.ts";
import { actsFor, go } from "../shell/route.ts";
import { devScript } from "../shell/scripts.ts";
import { isOperator, timeZone } from "../shell/session.ts";
import { findJsonFault } from "./json-fault.ts";
import { type DraftField, EMPTY_DRAFT, type TaskDraft, postedText } from "./task-draft.ts";

interface PostDialogProps {
  readonly title: string;
  /** Reads the initial values of the form. */
  readonly fill: (load: Load) => Promise<TaskDraft>;
  /** The initial account, for an operator who looks at all accounts. */
  readonly login?: string;
}

/** Opens the form that posts a task and then leads to it. */
export function openPostDialog(props: PostDialogProps): void {
  openDialog(<PostDialog {...props} />);
}

function PostDialog({ title, fill, login = "" }: PostDialogProps) {
  const form = useResource(title, (load) => readForm(fill, load), { everyMs: 0 });
  if (form.data !== null) return <TaskForm {...form.data} title={title} login={login} />;
  return (
    <Dialog title={title}>
      <Loaded resource={form}>{() => null}</Loaded>
    </Dialog>
  );
}

interface Form {
  readonly first: TaskDraft;
  readonly choices: TaskChoices;
}

async function readForm(fill: PostDialogProps["fill"], load: Load): Promise<Form> {
  const [draft, { types }, { marketplaces }] = await Promise.all([
    fill(load),
    call("GET /v1/appendix/types", load),
    call("GET /v1/appendix/marketplaces", load),
  ]);
  return {
    first: { ...draft, type: draft.type || (types[0] ?? "") },
    choices: { types, marketplaces: marketplaces.map(({ code }) => code) },
  };
}

type TaskFormProps = Form & Required<Omit<PostDialogProps, "fill">>;

function TaskForm({ first, choices, title, login }: TaskFormProps) {
  const post = useTaskPosting();
  const close = useClose();
  const asksAccount = isOperator.value && actsFor.value === null;
  async function attempt({ account: written, ...draft }: Values<TaskField>): Promise<void> {
    const account = asksAccount ? written.trim() : actsFor.peek();
    try {
      const task = await post({ text: postedText(draft), account });
      if (task.status_code !== ACCEPTED) throw refusalOf(task);
      announce("The task is posted.");
      close();
      go(`/tasks/${task.id}`);
    } catch (error) {
      if (!(error instanceof ApiError) || error.code !== NO_ACCOUNT) throw error;
      throw new FieldError("account", error.details.join(" "));
    }
  }
  return (
    <FormDialog<TaskField>
      title={title}
      verb="Post the task"
      fields={[...(asksAccount ? [ACCOUNT_FIELD] : []), ...taskFields(choices, first)]}
      first={{ ...first, account: login }}
      work={attempt}
    />
  );
}

const ACCEPTED = 20100;
const NO_ACCOUNT = 40400;

/** The error of a refused task, at the field that it names. */
function refusalOf({ status_message: text, error }: PostedTask): Error {
  const detail: unknown = error?.detail;
  return typeof detail === "object" && detail !== null && "field" in detail
    ? new FieldError(String(detail.field), text)
    : new Error(text);
}

export function NewTask() {
  const open = () =>
    openPostDialog({ title: "New task", fill: () => Promise.resolve(EMPTY_DRAFT) });
  useKeys([{ key: "p", does: "Post a task", run: open }]);
  return (
    <Button look="primary" isLarge press={open}>
      New task…
    </Button>
  );
}

interface TaskPost {
  /** The body of task_post, with this one task. */
  readonly text: string;
  /** The account that the operator posts for; null where the reader posts for the own one. */
  readonly account: string | null;
}

export type PostedTask = Awaited<ReturnType<typeof post>>;

/**
 * Returns what posts a task. A post that was not answered is repeated with the same idempotency key, so it makes no
 * second task. Throws an ApiError.
 */
function useTaskPosting(): (task: TaskPost) => Promise<PostedTask> {
  const unanswered = useRef({ text: "", key: "" });
  return async (task) => {
    if (unanswered.current.text !== task.text) {
      unanswered.current = { text: task.text, key: newIdempotencyKey() };
    }
    const posted = await post(task, unanswered.current.key);
    unanswered.current = { text: "", key: "" };
    return posted;
  };
}

async function post({ text, account }: TaskPost, idempotencyKey: string) {
  const body = new JsonText(text);
  const envelope = await call("POST /v1/tasks/task_post", { body, account, idempotencyKey });
  const [task] = envelope.tasks;
  if (task === undefined) throw new Error("The response of the daemon does not have the task.");
  return task;
}

// `crypto.randomUUID` is missing where the page did not come over HTTPS or from this machine.
function newIdempotencyKey(): string {
  return crypto.getRandomValues(new BigUint64Array(2)).join("-");
}

/** The names of this daemon that a task may use. */
interface TaskChoices {
  readonly types: readonly string[];
  readonly marketplaces: readonly string[];
}

type TaskField = DraftField | "account";

/** For an operator who sees all accounts: a task belongs to one of them. */
const ACCOUNT_FIELD: Field<TaskField> = {
  name: "account",
  label: "Account",
  hint: "The login of the account that the task is posted for.",
  input: { required: true },
};

/** The fields of a task whose form begins with this draft. */
function taskFields(
  { types, marketplaces }: TaskChoices,
  { marketplace }: TaskDraft,
): readonly Field<TaskField>[] {
  const hasMarketplace = marketplaces.length > 0 || marketplace !== "";
  return [
    choice("type", "Type", types),
    {
      name: "input",
      label: "Input",
      kind: "area",
      hint: "Any JSON, for the runner. Empty means null.",
      rule: inputFault,
    },
    target("postback_url", "Postback", "gets the finished task by a signed POST."),
    target("pingback_url", "Pingback", "gets a signed GET, with $id and $tag filled in."),
    { name: "tag", label: "Tag", hint: "A label of your own.", isHalf: true },
    { ...choice("priority", "Priority", Array.from("0123456789")), isHalf: true },
    {
      name: "start_at",
      label: "Start",
      hint: `Earliest start (${timeZone()}). Empty: immediately.`,
      input: { type: "datetime-local" },
    },
    ...(hasMarketplace ? [choice("marketplace", "Marketplace", ["", ...marketplaces])] : []),
  ];
}

function choice(name: TaskField, label: string, values: readonly string[]): Field<TaskField> {
  return { name, label, kind: "choice", options: values.map((value) => [value] as const) };
}

/** The target of a webhook; at a daemon for development also one of its inboxes. */
function target(name: TaskField, kind: string, effect: string): Field<TaskField> {
  const field = { name, label: `${kind} URL`, hint: `Optional: ${effect}` };
  const adapt = devScript.value?.inboxChoice(kind);
  return adapt === undefined ? field : { ...field, adapt };
}

function inputFault(input: string): string | null {
  if (input.trim() === EMPTY_DRAFT.input) return null;
  const fault = findJsonFault(input);
  return fault && `Line ${fault.line}, column ${fault.column}: expected ${fault.expected}.`;
}
