"""Summaries and the files they are written to."""

ROWS = {
    "summaries": (
        "summary.scalar summary.histogram summary.image summary.audio summary.text summary.tensor_summary summary.merge "
        "summary.merge_all summary.get_summary_description"
    ),
    "files.events": ("summary.FileWriter summary.FileWriterCache train.summary_iterator "),
}
