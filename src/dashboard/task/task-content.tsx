import type { ComponentProps } from "preact";
import { useState } from "preact/hooks";

import type { TimelineTask } from "../../api/timeline.ts";
import { Button } from "../part/button.tsx";
import { CopyButton } from "../part/copy-button.tsx";
import { Loaded } from "../part/notice.tsx";
import { Panel } from "../part/panel.tsx";
import { bytesText } from "../shell/format.ts";
import { useResource } from "../shell/resource.ts";
import { CodeBlock } from "./code-block.tsx";
import { type JsonSource, jsonText, parseJsonSource } from "./json-source.ts";
import { JsonView } from "./json-view.tsx";
import { parseTaskText, readTaskText, type TaskContents } from "./task-text.ts";

// More is shown only on request.
const AT_ONCE_BYTES_MAX = 65_536;

/** The input and the result of a task. */
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

function JsonPanel({ value, depth = 2, ...head }: JsonPanelProps) {
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
