import { bodyText, type Attack } from "./attack-job.ts";
import { repeat } from "./repeat.ts";

/** Sends the request again and again over each connection, with its body in chunks of one byte. */
export function chunks(attack: Attack): Promise<void> {
  const { head, body } = attack.job.request;
  if (body === null) throw new Error("there is no body to cut into chunks");
  const request = Buffer.from(
    `${head}\r\nTransfer-Encoding: chunked\r\n\r\n${chunked(bodyText(body))}`,
    "latin1",
  );
  return repeat({ ...attack, request });
}

/** ASCII text as chunks of one byte, and the one that ends it. */
export function chunked(text: string): string {
  return `${text.replaceAll(/[^]/g, "1\r\n$&\r\n")}0\r\n\r\n`;
}
