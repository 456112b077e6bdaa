import { signal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";

import { announce } from "../part/announcer.tsx";
import { Button } from "../part/control.tsx";
import { Dialog, FormDialog } from "../part/dialog.tsx";
import { Loaded } from "../part/panel.tsx";
import { ApiError, JsonText, call } from "../shell/api.ts";
import { useKeys } from "../shell/keyboard.ts";
import { type Load, useResource } from "../shell/resource.ts";
import { actsFor, go, route } from "../shell/route.ts";
import { isOperator } from "../shell/session.ts";
import { EMPTY_DRAFT, type TaskDraft, postedText } from "./task-draft.ts";
import { FormField, type Refusal, type TaskChoices, TaskFields } from "./task-fields.tsx";

interface PostDialogProps {
  readonly title: string;
  /** Reads the initial values of the form. */
  readonly fill: (load: Load) => Promise<TaskDraft>;
  /** The initial account, for an operator who looks at all accounts. */
  readonly login?: string;
}

/** The open dialog; null: closed. It belongs to the page: a screen may remove the button that opened it. */
const opened = signal<PostDialogProps | null>(null);

/** Opens the form that posts a task and then leads to it. */
export function openPostDialog(props: PostDialogProps): void {
  opened.value = props;
}

/** The dialog of {@link openPostDialog}. Another screen, another account or another session closes it. */
export function PostDialog() {
  useEffect(() => close, [route.value.path, actsFor.value]);
  return opened.value === null ? null : <LoadedForm {...opened.value} />;
}

function close(): void {
  opened.value = null;
}

function LoadedForm({ title, fill, login = "" }: PostDialogProps) {
  const form = useResource(title, (load) => readForm(fill, load), { everyMs: 0 });
  if (form.data !== null) return <TaskForm {...form.data} title={title} login={login} />;
  return (
    <Dialog title={title} close={close}>
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

function TaskForm({ first, choices, title, login: firstLogin }: TaskFormProps) {
  const [draft, setDraft] = useState(first);
  const [login, setLogin] = useState(firstLogin);
  const [refusal, setRefusal] = useState<Refusal | null>(null);
  const post = useTaskPosting();
  const asksAccount = isOperator.value && actsFor.value === null;
  async function attempt(): Promise<void> {
    setRefusal(null);
    const account = asksAccount ? login.trim() : actsFor.peek();
    try {
      const task = await post({ text: postedText(draft), account });
      if (task.status_code !== ACCEPTED) return setRefusal(refusalOf(task));
      announce("The task is posted.");
      close();
      go(`/tasks/${task.id}`);
    } catch (error) {
      if (!(error instanceof ApiError) || error.code !== NO_ACCOUNT) throw error;
      setRefusal({ field: "account", text: error.details.join(" ") });
    }
  }
  return (
    <FormDialog title={title} verb="Post the task" otherwise="Close" work={attempt} close={close}>
      {asksAccount && (
        <AccountField
          login={login}
          refusal={refusal}
          change={(value) => {
            setRefusal(null);
            setLogin(value);
          }}
        />
      )}
      <TaskFields
        draft={draft}
        choices={choices}
        refusal={refusal}
        change={(field, value) => {
          setRefusal(null);
          setDraft((before) => ({ ...before, [field]: value }));
        }}
      />
    </FormDialog>
  );
}

const ACCEPTED = 20100;
const NO_ACCOUNT = 40400;

/** The field that a refused task names. Throws the refusal where it names none. */
function refusalOf({ status_message: text, error }: PostedTask): Refusal {
  const detail: unknown = error?.detail;
  if (typeof detail === "object" && detail !== null && "field" in detail) {
    return { field: String(detail.field), text };
  }
  throw new Error(text);
}

interface AccountFieldProps {
  readonly login: string;
  readonly refusal: Refusal | null;
  readonly change: (login: string) => void;
}

/** For an operator who looks at all accounts: a task belongs to one of them. */
function AccountField({ login, refusal, change }: AccountFieldProps) {
  const fault = refusal?.field === "account" ? refusal.text : null;
  return (
    <FormField
      label="Account"
      hint="The login of the account that the task is posted for."
      fault={fault}
      isRefused={fault !== null}
    >
      {(attributes) => (
        <input
          {...attributes}
          value={login}
          required
          autocomplete="off"
          spellcheck={false}
          onInput={({ currentTarget }) => change(currentTarget.value)}
        />
      )}
    </FormField>
  );
}

/** The button that begins a new task. */
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

/** A task that is to be posted. */
export interface TaskPost {
  /** The body of task_post, with this one task. */
  readonly text: string;
  /** The account that the operator posts for; null where the reader posts for the own one. */
  readonly account: string | null;
}

/** The answer about a posted task. */
export type PostedTask = Awaited<ReturnType<typeof post>>;

/**
 * Returns what posts a task. A post that was not answered is repeated with the same idempotency key, so it makes no
 * second task. Throws an ApiError.
 */
export function useTaskPosting(): (task: TaskPost) => Promise<PostedTask> {
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
  if (task === undefined) throw new Error("The daemon answered without the task.");
  return task;
}

// `crypto.randomUUID` is missing where the page did not come over HTTPS or from this machine.
function newIdempotencyKey(): string {
  return crypto.getRandomValues(new BigUint64Array(2)).join("-");
}
