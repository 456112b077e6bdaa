import { Button } from "../part/button.tsx";
import { Empty } from "../part/notice.tsx";
import { Time } from "../part/time.tsx";
import { countText } from "../shell/format.ts";
import { hrefOf, setQuery } from "../shell/route.ts";
import { searchWords, withoutWord } from "./task-filter.ts";
import { PAGE_SIZE, type TaskPage } from "./task-page.ts";
import { search } from "./task-search-form.tsx";

/** The way to older tasks. */
export function PageEnd({ page: { rows, next, examinedUntil } }: { readonly page: TaskPage }) {
  if (next === null) return null;
  const older = () => {
    setQuery({ cursor: next });
    globalThis.scrollTo(0, 0);
  };
  const isShort = rows.length < PAGE_SIZE;
  return (
    <div class="page-end">
      {isShort && examinedUntil !== null && (
        <p class="hint">
          {rows.length === 0 ? "Nothing" : "Nothing more"} among tasks created since{" "}
          <Time at={examinedUntil} />.
        </p>
      )}
      <Button isLarge press={older}>
        {isShort ? "Look further back" : "Older tasks"}
      </Button>
    </div>
  );
}

interface NothingFoundProps {
  readonly q: string;
  /** There are older tasks that nobody has looked at. */
  readonly hasMore: boolean;
  readonly isFirst: boolean;
}

/** Why there is nothing, and what to do about it. */
export function NothingFound({ q, hasMore, isFirst }: NothingFoundProps) {
  const words = searchWords(q);
  if (words.length === 0)
    return isFirst ? <NoTasks /> : <Empty title="There are no older tasks." />;
  return (
    <Empty title={hasMore ? "Nothing found so far." : "No task matches all of these words."}>
      <p>{words.length === 1 ? "Remove the word:" : "Leave out one of them:"}</p>
      <div class="row">
        {words.map((word, index) => (
          <button
            key={`${index} ${word}`}
            type="button"
            class="chip"
            onClick={() => search(withoutWord(q, index))}
          >
            without <bdi class="clipped">{word}</bdi>
          </button>
        ))}
      </div>
    </Empty>
  );
}

function NoTasks() {
  return (
    <Empty title="No task has been posted yet.">
      <p>
        Post the first one above. <a href={hrefOf("/")}>The overview</a> has a command to paste.
      </p>
      <p class="hint">Tasks appear here by themselves, {countText(PAGE_SIZE)} on a page.</p>
    </Empty>
  );
}
