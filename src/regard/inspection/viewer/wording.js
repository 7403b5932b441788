/** What things are called, by the kind of document: a translation, or a text that was read. */

const TRANSLATION = {
  answer: "translation",
  other: "the translation is another one",
  footer:
    "What becomes of the translation without a head was computed when the file was written; on a " +
    "page of regard serve heads can be flattened and links forced as well.",
  fresh: "New: the unchanged translation does not have it here.",
  parts: {
    cross: {
      label: "Cross",
      title: "The translation looks at the sentence",
      lines: { columns: "Sentence", rows: "Translation" },
    },
    encoder: {
      label: "Encoder",
      title: "The sentence looks at itself",
      lines: { columns: "Sentence, looked at", rows: "Sentence, looking" },
    },
    decoder: {
      label: "Decoder",
      title: "The translation looks at what it has said so far",
      lines: { columns: "Said so far, looked at", rows: "Translation, looking" },
    },
  },
  candidates: {
    title: "Other translations",
    hint:
      "The score is the log-probability of the whole translation, corrected for its length: " +
      "the nearer to 0, the better. What differs from the best is marked.",
  },
};

const TEXT = {
  answer: "text",
  other: "another token comes next",
  footer: "What comes next without a head was computed when the file was written.",
  fresh: "New: the unchanged text does not have it here.",
  parts: {
    decoder: {
      label: "Decoder",
      title: "The text looks at itself",
      lines: { columns: "Text, looked at", rows: "Text, looking" },
    },
  },
  candidates: {
    title: "What comes next",
    hint: "The likeliest next tokens behind the text, with their probabilities.",
  },
};

const MASKED = {
  answer: "text",
  other: "a masked place is filled otherwise",
  footer: "What fills the masked places without a head was computed when the file was written.",
  fresh: "New: the unchanged text does not have it here.",
  parts: {
    encoder: {
      label: "Encoder",
      title: "The text looks at itself",
      lines: { columns: "Text, looked at", rows: "Text, looking" },
    },
  },
  candidates: {
    title: "What may stand in masked places",
    hint: "The likeliest tokens of each masked place, with their probabilities.",
  },
};

const CLASS = {
  ...TEXT,
  answer: "class",
  other: "another class is likeliest",
  footer: "Which class is likeliest without a head was computed when the file was written.",
  parts: { ...TEXT.parts, ...MASKED.parts },
  candidates: { title: "Classes", hint: "The likeliest classes, with their probabilities." },
};

const WORDINGS = { translation: TRANSLATION, text: TEXT, masked: MASKED, class: CLASS };

/** @param {Object} look a look document */
export function wordingOf(look) {
  return WORDINGS[look.kind];
}
