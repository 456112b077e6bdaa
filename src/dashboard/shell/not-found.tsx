import { Empty } from "../part/notice.tsx";
import { hrefOf } from "./route.ts";

/** A URL that leads to no screen. */
export function NotFoundScreen() {
  return (
    <Empty title="There is nothing at this address." isAlone>
      <p>
        <a href={hrefOf("/")}>Go to the overview</a>
      </p>
    </Empty>
  );
}
