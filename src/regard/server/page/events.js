/** Server-sent events, read from the body of a POST (an EventSource can only GET). */

/**
 * The event in one block of lines, or null for a comment.
 *
 * @param {string} block
 * @returns {{event: string, data: string} | null}
 */
function readBlock(block) {
  let event = "message";
  const data = [];
  for (const line of block.split("\n")) {
    const [, name, value] = /^([^:]*):? ?(.*)$/.exec(line) ?? [];
    if (name === "event") event = value;
    else if (name === "data") data.push(value);
  }
  return data.length ? { event, data: data.join("\n") } : null;
}

/**
 * Each event of a stream as soon as it is complete.
 *
 * @param {ReadableStream<Uint8Array>} body
 * @returns {AsyncGenerator<{event: string, data: string}>}
 */
export async function* readEvents(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let pending = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      // a \r\n may be cut in two by the network: a lone \r waits for what follows
      pending = (pending + value).replace(/\r\n/g, "\n");
      const blocks = pending.split("\n\n");
      pending = blocks.pop() ?? "";
      for (const block of blocks) {
        const event = readBlock(block);
        if (event) yield event;
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
