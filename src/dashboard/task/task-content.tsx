import type { ComponentProps } from "preact";
import { useState } from "preact/hooks";

import type { TimelineTask } from "../../api/timeline.ts";
import { Button, CopyButton } from "../part/control.tsx";
import { Loaded, Panel } from "../part/panel.tsx";
import { callText } from "../shell/api.ts";
import { bytesText } from "../shell/format.ts";
import { type Load, useResource } from "../shell/resource.ts";
import { isOperator } from "../shell/session.ts";
import {
  type JsonSource,
  isList,
  isObject,
  jsonText,
  memberOf,
  parseJsonSource,
} from "./json-source.ts";
import { CodeBlock, JsonView } from "./json-view.tsx";

// More is shown only on request.
const AT_ONCE_BYTES_MAX = 65_536;

export function TaskContent({ task }: { readonly task: TimelineTask }) {
  const { input_bytes: input, result_bytes: result, state, data } = task;
  const bytes = (input ?? 0) + (result ?? 0);
  const [isWanted, setWanted] = useState(bytes <= AT_ONCE_BYTES_MAX);
  return (
    <>
      {bytes > 0 && !isWanted && (
        <section class="panel panel-body row" aria-label="Input and result">
          <span>
            Input {bytesText(input ?? 0)}, result {bytesText(result ?? 0)}.
          </span>
          <Button press={() => setWanted(true)}>Show them</Button>
        </section>
      )}
      {bytes > 0 && isWanted && <LoadedContent key={`${state} ${result ?? ""}`} task={task} />}
      {Object.keys(data).length > 0 && <PostedFields data={data} />}
    </>
  );
}

function LoadedContent({ task }: { readonly task: TimelineTask }) {
  const text = useResource(
    `text ${task.id} ${task.state}`,
    async (load) => parseTaskText(await readTaskText(task, load)),
    { everyMs: 0 },
  );
  return (
    <Loaded resource={text}>
      {(content) => (
        <>
          <Json title="Input" content={content} value={content.input} bytes={task.input_bytes} />
          <Json title="Result" content={content} value={content.result} bytes={task.result_bytes} />
        </>
      )}
    </Loaded>
  );
}

interface JsonProps {
  readonly title: string;
  readonly content: TaskContents;
  readonly value: JsonSource | undefined;
  readonly bytes: number | null;
}

function Json({ title, content, value, bytes }: JsonProps) {
  if (bytes === null) return null;
  if (!content.isRead) {
    return title === "Input" ? (
      <section class="panel panel-body">
        <CodeBlock title="Input and result, as they are" text={content.text} what="text" />
      </section>
    ) : null;
  }
  if (value === undefined) return null;
  return (
    <JsonPanel
      title={title}
      value={value}
      tools={
        <>
          <span class="hint">{bytesText(bytes)}</span>
          <CopyButton text={jsonText(value)} what={title.toLowerCase()} />
        </>
      }
    />
  );
}

/** The runner's details of a failure, beyond its message. */
export function ErrorDetail({ task: { error } }: { readonly task: TimelineTask }) {
  const detail = toSource(error?.detail);
  if (detail === null || detail === undefined) return null;
  return <JsonPanel title="Error" value={detail} />;
}

function PostedFields({ data }: Pick<TimelineTask, "data">) {
  const value = toSource(data);
  return value === undefined ? null : (
    <JsonPanel title="Fields as posted" value={value} depth={1} />
  );
}

interface JsonPanelProps extends Pick<ComponentProps<typeof Panel>, "title" | "tools"> {
  readonly value: JsonSource;
  /** How many levels are open at first. */
  readonly depth?: number;
}

/** A panel with JSON as a tree. */
export function JsonPanel({ value, depth = 2, ...head }: JsonPanelProps) {
  return (
    <Panel {...head}>
      <div class="panel-body">
        <JsonView value={value} depth={depth} />
      </div>
    </Panel>
  );
}

function toSource(value: unknown): JsonSource | undefined {
  return parseJsonSource(JSON.stringify(value ?? null));
}

/** The answer of task_get about a task, byte for byte: the body of its postback. It never collects the task. */
export function readTaskText(
  { id, login }: Pick<TimelineTask, "id" | "login">,
  load?: Load,
): Promise<string> {
  const account = isOperator.value ? { account: login } : {};
  const query = { collect: false };
  return callText("GET /v1/tasks/task_get/:id", { ...load, ...account, params: { id }, query });
}

/** The input and the result in an answer of task_get. */
interface TaskContents {
  /** The whole answer. */
  readonly text: string;
  /** Whether it could be read as a tree. */
  readonly isRead: boolean;
  readonly input: JsonSource | undefined;
  readonly result: JsonSource | undefined;
}

export function parseTaskText(text: string): TaskContents {
  const envelope = parseJsonSource(text);
  const tasks = memberOf(envelope, "tasks");
  const task = isList(tasks) ? tasks[0] : undefined;
  const input = memberOf(memberOf(task, "data"), "input");
  return { text, isRead: isObject(envelope), input, result: memberOf(task, "result") };
}
